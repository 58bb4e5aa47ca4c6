//! The cache that the machine has, and the commands that set another.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use thermocline_advise::commands::{self, commands as commands_for};
use thermocline_advise::installed::{
    Found, InstalledCache, InstalledKind, bcache, lvmcache, open_cas, run_program, zfs,
};
use thermocline_advise::mapping::model;
use thermocline_advise::recommend::{Choice, Devices, recommended};
use thermocline_core::config::Given;
use thermocline_core::names::there_are;
use thermocline_lab::advising::{Advice, Cache};

use crate::arguments::{AdviseOptions, Have, KindWord};
use crate::output;

/// Commands to type.
#[derive(Debug, Default, Serialize)]
pub(super) struct Commands {
    /// Shell lines with comments.
    #[serde(skip)]
    pub(super) text: String,
    /// The same, step by step.
    #[serde(flatten)]
    steps: Option<commands::Commands>,
}

/// Reads the cache that is named, or the only one of its kind.
pub(super) fn read(have: &Have) -> Result<InstalledCache> {
    let root = Path::new("/");
    let found = match have.kind {
        KindWord::Lvmcache | KindWord::Writecache => lvmcache::read(&mut run_program)?,
        KindWord::Bcache => bcache::read(root)?,
        KindWord::OpenCas => open_cas::read(&mut run_program)?,
        KindWord::Zfs => zfs::read(root, &mut run_program)?,
        KindWord::Thermocline => bail!("--have thermocline: its figures are those of `top`"),
    };
    found.notes.iter().for_each(|text| output::note(&format!("note: {text}")));
    let Found { caches, .. } = found;
    let suits = |cache: &InstalledCache| match (&cache.kind, have.kind) {
        (InstalledKind::DmWritecache { .. }, kind) => kind == KindWord::Writecache,
        (InstalledKind::DmCache { .. }, kind) => kind == KindWord::Lvmcache,
        _ => true,
    };
    let mut caches: Vec<InstalledCache> = caches.into_iter().filter(suits).collect();
    let kind = have.kind.into_lab().name();
    let known: Vec<String> = caches.iter().map(|cache| cache.name.clone()).collect();
    if let Some(name) = &have.name {
        let place = known.iter().position(|known| known == name);
        let place = place.with_context(|| {
            if known.is_empty() {
                return format!("--have: there is no {kind} on this machine");
            }
            let known = there_are(name, known.iter().map(String::as_str));
            format!("--have: unknown {kind} `{name}`; {known}")
        })?;
        return Ok(caches.swap_remove(place));
    }
    match caches.len() {
        1 => Ok(caches.remove(0)),
        0 => bail!("--have: there is no {kind} on this machine"),
        _ => bail!("--have: which {kind}? There are: {}", known.join(", ")),
    }
}

/// Return the cache as the lab simulates it; says what it leaves out.
pub(super) fn today(installed: &InstalledCache, page_bytes: u64) -> Result<Cache> {
    let modelled = model(installed, page_bytes)?;
    for text in &modelled.left_out {
        output::note(&format!("note: {text}"));
    }
    let ram_bytes = modelled.ram_pages.unwrap_or(0) * page_bytes;
    Ok(Cache {
        name: format!("{} {}", installed.kind.name(), installed.name),
        policy: modelled.policy.into(),
        parameters: modelled
            .parameters
            .into_iter()
            .map(|(name, value)| (name, Given::Text(value)))
            .collect(),
        ram_bytes,
        flash_bytes: modelled.flash_pages * page_bytes,
    })
}

/// Return the commands that set what is recommended.
pub(super) fn commands(
    advice: &Advice,
    installed: Option<&InstalledCache>,
    options: &AdviseOptions,
    page_bytes: u64,
) -> Result<Commands> {
    let Some(best) = advice.recommended.map(|best| &advice.kinds[best].cache) else {
        return Ok(Commands::default());
    };
    let parameters: Vec<(String, String)> =
        best.parameters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
    let choice = Choice {
        policy: &best.policy,
        parameters: &parameters,
        flash_bytes: best.flash_bytes,
        ram_bytes: best.ram_bytes,
        page_bytes,
    };
    let slow = options.device.as_ref().map(|device| device.display().to_string());
    let mut devices = Devices::default();
    if let Some(slow) = &slow {
        devices.slow = slow;
    }
    let Some(found) = recommended(&choice, devices, installed) else {
        return Ok(Commands::default());
    };
    let mut steps = commands_for(&found.cache, installed)?;
    if !found.unsaid.is_empty() {
        let unsaid: Vec<String> =
            found.unsaid.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        steps.note(format!(
            "The forecast also assumes {}, for which there is no command.",
            unsaid.join(", ")
        ));
    }
    Ok(Commands { text: steps.to_string(), steps: Some(steps) })
}

#[cfg(test)]
mod tests {
    use thermocline_lab::advising::{Kind, Place, settings_tried};

    use super::*;

    /// Return the commands for a setting, and what they leave out.
    fn shell(cache: &Cache, page_bytes: u64) -> (String, Vec<(String, String)>) {
        let parameters: Vec<(String, String)> = cache
            .parameters
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect();
        let choice = Choice {
            policy: &cache.policy,
            parameters: &parameters,
            flash_bytes: cache.flash_bytes,
            ram_bytes: cache.ram_bytes,
            page_bytes,
        };
        let found = recommended(&choice, Devices::default(), None).expect("somebody ships it");
        let text = commands_for(&found.cache, None).expect("it can be set").to_string();
        (text, found.unsaid)
    }

    /// A parameter that a search sets, and that no command says, would be recommended in vain.
    #[test]
    fn every_setting_that_is_tried_has_commands_of_its_own() {
        for page_bytes in [4096, 8192] {
            let place = Place {
                ram_bytes: 4 << 30,
                flash_bytes: 30 << 30,
                page_bytes,
                rate: 1.0,
                extent_pages: 16,
                has_times: true,
            };
            for kind in Kind::ALL {
                let mut known: Vec<(String, Cache)> = vec![];
                for cache in settings_tried(kind, &place) {
                    let (text, unsaid) = shell(&cache, page_bytes);
                    assert_eq!(unsaid, [], "{cache:?}");
                    let same = known.iter().find(|(known, _)| *known == text);
                    assert!(same.is_none(), "{cache:?} is set like {same:?}:\n{text}");
                    known.push((text, cache));
                }
                assert!(!known.is_empty());
            }
        }
    }
}
