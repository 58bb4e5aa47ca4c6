//! The replacement of the flash, step by step, between the requests of clients.

use anyhow::{Context as _, Result, ensure};
use thermocline_engine::driver::flash::FlashDevice;
use tracing::{error, info};

use super::Service;
use super::control::{Control, Replacement};
use super::kept_note::Note;

/// The replacement under way, if there is one.
#[derive(Default)]
pub(super) struct Replacing {
    current: Option<Replacement>,
}

impl Replacing {
    /// Takes the next step, if it can be taken now.
    pub(super) fn advance(
        &mut self,
        control: &Control,
        service: &mut Service,
        note: Option<&Note>,
    ) {
        if self.current.is_none() {
            let Some(ordered) = control.take_order() else { return };
            info!(flash = %ordered.flash.path.display(), "replacing the flash");
            self.current = Some(ordered);
        }
        let Some(replacement) = &self.current else { return };
        let result = match step(replacement, service, note) {
            Ok(false) => return,
            Ok(true) => Ok(done(replacement)),
            Err(error) => Err(error),
        };
        match &result {
            Ok(_) => {
                control.has_taken(replacement.flash.path.clone());
                info!("replaced the flash: change `flash.path` before the next start");
            }
            Err(error) => error!(error = format!("{error:#}"), "did not replace the flash"),
        }
        control.has_ended();
        if let Some(replacement) = self.current.take() {
            replacement.finish(result);
        }
    }
}

/// Takes a step. Returns whether it was the last one.
fn step(replacement: &Replacement, service: &mut Service, note: Option<&Note>) -> Result<bool> {
    let note = note.context("the server was started without a flash")?;
    let flash = &replacement.flash;
    let engine = service.inner_mut().engine_mut();
    let shard = engine.shard_mut();
    let lost_pages = shard.lost_pages().len();
    let may_go_on = lost_pages == 0 || replacement.forgets_lost;
    if !may_go_on {
        shard.stay_with_flash()?;
    }
    ensure!(
        may_go_on,
        "{lost_pages} pages are lost, and another start would not know of them: write them as a whole, \
         or give them up with --yes; /status lists them"
    );
    if shard.has_flash() {
        shard.check_flash(flash.pages, &flash.policy, &flash.contents)?;
        shard.leave_flash();
        return Ok(false);
    }
    if shard.has_left_flash() {
        // From here on no start takes the old flash, which has nothing that the backing store lacks.
        if let Err(error) = note.leave_flash() {
            shard.stay_with_flash()?;
            return Err(error).context("the engine stays with the old flash");
        }
        shard.release_flash();
    }
    // One that failed may have had durably what is only in RAM now.
    shard.leave_flash();
    if !shard.is_flash_released() {
        return Ok(false);
    }
    let context = "the old flash is no longer used: the engine runs without one";
    shard.check_flash(flash.pages, &flash.policy, &flash.contents).context(context)?;
    let driven = flash.file.try_clone()?;
    let noted = FlashDevice::One(flash.file.try_clone()?);
    // From now on the new flash may have what the backing store lacks.
    let superblock = *flash.contents.superblock();
    note.take_flash(noted, (superblock.cache, superblock.epoch)).context(context)?;
    engine.driver().set_flash(driven).context(context)?;
    let policy = flash.policy.clone();
    engine.shard_mut().take_flash(flash.pages, policy, &flash.contents).context(context)?;
    Ok(true)
}

fn done(replacement: &Replacement) -> String {
    let path = replacement.flash.path.display();
    format!(
        "the server caches on `{path}` now\nset `flash.path` (and `flash.size`, if you gave --size) in \
         the configuration before the next start: with the old flash it is refused\n"
    )
}
