//! A configuration that is read again while clients are served.

use anyhow::{Context as _, Result, ensure};
use thermocline_core::registry::Depth;
use tracing::{error, info, warn};

use super::config::{self, Config, Volumes};
use super::instruments::Instruments;
use super::members::Seat;
use super::shadows::{self, Wanted, Watching};
use super::{Service, Serving, listening};

/// Reads the configuration again, and has the first shard of each volume take it over: all of it, or
/// nothing. A volume that cannot stays as it is, and does not keep others from theirs.
pub(super) fn reload(
    serving: &Serving<'_>,
    services: &mut [Service],
    seats: &mut [Seat<'_>],
) -> Result<()> {
    let path = serving.options.config.as_ref().context("there is no configuration")?;
    let configs = Volumes::read(path)?;
    let engine = services.first_mut().context("there is a volume")?.inner_mut().engine_mut();
    let shards = engine.shard().options().share.map.number();
    ensure!(
        configs.shared().shards == shards,
        "`shards`: {shards} serve until the flash is drained and the server is started again"
    );
    check_same_volumes(serving, &configs)?;
    let tls = listening::certificates(configs.shared())?;
    for ((service, seat), volume) in services.iter_mut().zip(seats).zip(serving.volumes) {
        let _span = volume.span.enter();
        let config = configs.of(&volume.name);
        let taken = shadows::options(config)
            .and_then(|shadows| take_over(config, Some(shadows), service, seat.instruments));
        match configs.within(config, taken) {
            Ok(()) => {
                seat.cleaning = config.cleaning;
                volume.news.tell(config);
            }
            Err(error) if serving.are_named => {
                error!(error = format!("{error:#}"), "kept the old configuration of the volume");
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(tls) = tls {
        serving.all.set_tls(tls);
    }
    serving.all.wake();
    serving.control.set_config(configs.into_shared());
    info!("applied the new configuration; sizes, devices and addresses need a restart");
    Ok(())
}

/// Check that a configuration has the volumes that are served.
fn check_same_volumes(serving: &Serving<'_>, configs: &Volumes) -> Result<()> {
    let mut served: Vec<&str> = serving.volumes.iter().map(|volume| &*volume.name).collect();
    let mut given: Vec<&str> = configs.names().collect();
    served.sort_unstable();
    given.sort_unstable();
    let is_same = configs.are_named() == serving.are_named;
    ensure!(
        is_same && (!serving.are_named || served == given),
        "[[volume]]: volumes are added and removed when the server starts; the running ones are: {}",
        served.join(", ")
    );
    Ok(())
}

/// Takes over what can change while clients are served; all of it, or nothing. What the first shard took
/// over all can, because they are alike.
pub(super) fn take_over(
    config: &Config,
    shadow_options: Option<Vec<Wanted>>,
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
    let shards = u32::from(shard.options().share.map.number().get());
    let policy = config.policy_options()?;
    let rating = config.flash_rated_written_bytes()?;
    let shadow_options = shadow_options.unwrap_or_default();
    let shadows = Watching::new(shadow_options, config, shard.options())?;
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
    let budget = config.flash.as_ref().and_then(|flash| flash.write_budget_gib_per_day);
    shard.set_flash_write_budget(budget.map(|gib| gib / f64::from(shards)));
    instruments.set_flash_rating(rating);
    instruments.set_shadows(shadows);
    Ok(())
}
