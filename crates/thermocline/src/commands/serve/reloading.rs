//! A configuration that is read again while clients are served.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use thermocline_core::registry::Depth;
use thermocline_nbd::server::Exports;
use tracing::{error, info, warn};

use super::changes::Changes;
use super::config::{self, Config, Volumes};
use super::instruments::Instruments;
use super::shadows::{self, Watching};
use super::volume::Seat;
use super::{Service, Serving, listening};

/// Reads the configuration again, and has the first shard of each volume take it over: all of it, or
/// nothing. Volumes that left the configuration begin to leave, and new ones are opened. A volume that cannot
/// stays as it is, and does not keep others from theirs.
pub(super) fn reload(
    serving: &Serving<'_>,
    exports: &mut Exports<Service>,
    seats: &mut [Seat],
    changes: &mut Changes,
) -> Result<()> {
    let path = serving.options.config.as_ref().context("there is no configuration")?;
    let configs = Arc::new(Volumes::read(path)?);
    let shards = serving.shards;
    ensure!(
        configs.shared().shards == shards,
        "`shards`: {shards} serve until the flash is drained and the server is started again"
    );
    ensure!(
        configs.are_named() == serving.are_named,
        "[[volume]]: a server with volumes and one without have flashes of different kinds: stop it, and see \
         docs/volumes.md"
    );
    // Before any volume changes: a certificate that cannot be read keeps all as it is.
    let tls = listening::certificates(configs.shared())?;
    for seat in &mut *seats {
        let volume = Arc::clone(&seat.volume);
        let _span = volume.span.enter();
        let taken = match configs.of(&volume.name) {
            Some(config) => configs.within(config, change(config, seat, exports)),
            None => check_flash_stays(serving).and_then(|()| changes.remove(&volume)),
        };
        if taken.is_ok()
            && let Some(config) = configs.of(&volume.name)
        {
            let shard = exports.service_mut(seat.place).inner_mut().engine_mut().shard();
            if let Err(error) = volume.look_for_growth(shard, serving.control, changes) {
                let error = format!("{error:#}");
                error!(
                    error,
                    "the size of the backing store has changed, but not that of the volume"
                );
            }
            match volume.other_flash_size(&configs, config, shard, changes) {
                Ok(wanted) => wanted.into_iter().for_each(|wanted| volume.change_flash(wanted)),
                Err(error) => error!(error = format!("{error:#}"), "the flash keeps its size"),
            }
        }
        match taken {
            Err(error) if serving.are_named => {
                error!(error = format!("{error:#}"), "kept the old configuration of the volume");
            }
            taken => taken?,
        }
    }
    for config in configs.each().iter().filter(|_| configs.are_named()) {
        if seats.iter().all(|seat| seat.volume.name != config.nbd.export)
            && let Err(error) =
                check_flash_stays(serving).and_then(|()| changes.add(&configs, config, seats))
        {
            let _span = configs.span(config).entered();
            error!(error = format!("{error:#}"), "did not add the volume");
        }
    }
    if let Some(tls) = tls {
        serving.all.set_tls(tls);
    }
    serving.all.set_client_rates(configs.shared().nbd.client_rates());
    serving.all.wake();
    serving.control.set_configs((*configs).clone());
    info!("applied the new configuration; sizes of RAM, devices and addresses need a restart");
    Ok(())
}

/// Take the next step of each volume whose size of flash changes.
pub(super) fn advance_flashes(
    serving: &Serving<'_>,
    exports: &mut Exports<Service>,
    seats: &[Seat],
    changes: &mut Changes,
) {
    // All are asked first: a volume that grows may need the room of one behind it in the list.
    let mut gives_back = false;
    for seat in seats {
        let shard = exports.service_mut(seat.place).inner_mut().engine_mut().shard();
        gives_back |= seat.volume.gives_room_back(shard);
    }
    for seat in seats {
        let _span = seat.volume.span.enter();
        let shard = exports.service_mut(seat.place).inner_mut().engine_mut().shard();
        let step = seat.volume.advance_flash(shard, gives_back, serving.control, changes);
        if let Err(error) = step {
            error!(error = format!("{error:#}"), "the flash keeps its size");
        }
    }
}

/// Refuse to add or remove a volume while the flash is being replaced.
fn check_flash_stays(serving: &Serving<'_>) -> Result<()> {
    ensure!(
        !serving.control.is_replacing(),
        "the flash is being replaced: read the configuration again after that"
    );
    Ok(())
}

/// Has the shard of the first thread take over its volume's configuration, and tells the others.
fn change(config: &Config, seat: &mut Seat, exports: &mut Exports<Service>) -> Result<()> {
    ensure!(
        seat.volume.departure.cancel(),
        "the volume is being removed: read the configuration again when it is gone"
    );
    let config = &seat.volume.with_present_share(config);
    take_over(config, exports.service_mut(seat.place), &seat.instruments)?;
    seat.cleaning = config.cleaning;
    seat.volume.news.tell(config);
    Ok(())
}

/// Takes over what can change while clients are served; all of it, or nothing. All shards can take over what
/// the first one took, because they are alike.
pub(super) fn take_over(
    config: &Config,
    service: &mut Service,
    instruments: &Instruments,
) -> Result<()> {
    let may_write = service.inner_mut().engine_mut().driver().may_write();
    ensure!(
        may_write || config.write_mode == config::Mode::ReadOnly,
        "`write_mode`: the backing store takes no writes"
    );
    let shard = service.inner_mut().engine_mut().shard_mut();
    config.check_cooperation_stays(shard.options())?;
    let policy = config.policy_options()?;
    let rating = config.flash_rated_written_bytes()?;
    let shadows = Watching::new(shadows::options(config)?, config, shard.options())?;
    let given: Vec<_> =
        policy.values.iter().map(|(name, value)| (name, value.to_string())).collect();
    let current = &shard.options().policy;
    let now: Vec<_> =
        current.values.iter().map(|(name, value)| (name, value.to_string())).collect();
    let needs_flash = policy.entry.capabilities.depth != Depth::Ram;
    let is_another = current.entry.name != policy.entry.name
        || given != now
        || current.write_miss != policy.write_miss;
    let may_run = shard.has_flash() || !needs_flash;
    if is_another && may_run {
        shard.check_policy(&policy).context("`policy`")?;
    }
    // The last step that may fail.
    instruments.set_recording(config.record.as_ref(), shard.options())?;
    if !may_run {
        warn!(policy = &*policy.entry.name, "there is no flash: the policy stays until a restart");
    } else if is_another {
        info!(policy = &*policy.entry.name, "another policy takes over");
        shard.set_policy(policy).context("`policy`")?;
    }
    shard.set_write_mode(config.write_mode.into_engine());
    config.cleaning.apply(shard);
    shard.set_flash_write_budget(config.shard_write_budget());
    instruments.set_flash_rating(rating);
    instruments.set_shadows(shadows);
    Ok(())
}
