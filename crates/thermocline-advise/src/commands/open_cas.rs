//! Commands of Open CAS: `casadm` with its short options, which are the same in all releases.

use crate::installed::{
    Core, InstalledCache, InstalledKind, OpenCas, OpenCasCleaning, OpenCasPromotion,
};
use crate::size::{exact, spelled};

use super::script::{Change, Commands};
use super::shell::check_name;
use super::{CommandError, check_percent, is_same_size, remove as remove_installed, warn_of_loss};

const CHECKED_AGAINST: &str = "open-cas-linux (commit e7ddd7bb)";

/// Open CAS as it is recommended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) id: u16,
    pub(super) fast: &'a str,
    pub(super) slow: &'a [String],
    pub(super) size_bytes: u64,
    pub(super) settings: &'a OpenCas,
}

impl Wanted<'_> {
    fn check(&self) -> Result<(), CommandError> {
        check_name("fast device", self.fast)?;
        for device in self.slow {
            check_name("slow device", device)?;
        }
        let line = self.settings.line_bytes;
        if ![4, 8, 16, 32, 64].contains(&(line >> 10)) || !line.is_multiple_of(1024) {
            let expected = "casadm takes 4k, 8k, 16k, 32k and 64k";
            return Err(CommandError::setting("a line size", &*exact(line), expected));
        }
        if self.settings.sequential_cutoff_bytes < 1024 {
            let expected = "casadm takes whole KiB from 1 on; the policy `never` switches it off";
            let value = self.settings.sequential_cutoff_bytes;
            return Err(CommandError::setting("a sequential cutoff", value, expected));
        }
        if let OpenCasPromotion::Nhit { threshold, trigger_percent } = self.settings.promotion {
            if !(2..=1000).contains(&threshold) {
                let expected = "casadm takes 2 to 1000";
                return Err(CommandError::setting("a threshold", threshold, expected));
            }
            check_percent("a trigger", trigger_percent, 100)?;
        }
        Ok(())
    }
}

pub(super) fn commands(
    wanted: &Wanted<'_>,
    installed: Option<&InstalledCache>,
) -> Result<Commands, CommandError> {
    wanted.check()?;
    let mut commands = Commands::new("Open CAS", CHECKED_AGAINST);
    let id = wanted.id.to_string();
    match installed.map(|cache| (cache, &cache.kind)) {
        Some((cache, InstalledKind::OpenCas { settings: now, cores, .. })) => {
            if cache.name == id
                && now.line_bytes == wanted.settings.line_bytes
                && is_same_size(cache.size_bytes, wanted.size_bytes)
            {
                change(&mut commands, &id, now, wanted.settings);
            } else {
                commands.set_change(Change::Rebuild);
                remove_installed(&mut commands, cache);
                make(&mut commands, &id, wanted, Some(cores));
            }
        }
        other => {
            commands.set_change(Change::Create);
            if let Some((cache, _)) = other {
                commands.set_change(Change::Rebuild);
                remove_installed(&mut commands, cache);
            }
            make(&mut commands, &id, wanted, None);
        }
    }
    commands.run("Shows what is set, and the counters.", &["casadm", "-P", "-i", &id]);
    Ok(commands)
}

/// Add the steps that stop a cache.
pub(super) fn remove(commands: &mut Commands, id: u16) {
    let id = id.to_string();
    commands.run("Writes back what is dirty.", &["casadm", "-F", "-i", &id]);
    commands.warning(
        "the next step removes the devices /dev/casX-Y: unmount what is on them first, and mount it \
         again when they are back",
    );
    commands.run("Stops the cache.", &["casadm", "-T", "-i", &id]);
}

/// Choose the numbers of cores: those that their devices have, so that `/dev/casX-Y` stay the same, or
/// else the lowest free ones.
fn core_numbers(slow: &[String], now: &[Core]) -> Vec<u16> {
    let known = |device: &String| now.iter().find(|core| core.device == *device);
    let taken: Vec<_> = slow.iter().filter_map(known).map(|core| core.id).collect();
    let mut free = (1..).filter(|number| !taken.contains(number));
    slow.iter()
        .filter_map(|device| known(device).map_or_else(|| free.next(), |core| Some(core.id)))
        .collect()
}

/// Make a cache; `replaced` has the cores of the Open CAS cache that was on the fast device.
fn make(commands: &mut Commands, id: &str, wanted: &Wanted<'_>, replaced: Option<&[Core]>) {
    let settings = wanted.settings;
    commands.note(format!(
        "The cache is as large as the fast device: if that is larger than {0}, make a partition of {0} \
         on it.",
        spelled(wanted.size_bytes)
    ));
    if settings.mode.is_lazy() {
        warn_of_loss(commands);
    }
    let line_kib = (settings.line_bytes >> 10).to_string();
    let mode = settings.mode.word();
    let mut words = vec!["casadm", "-S", "-i", id, "-d", wanted.fast, "-c", mode, "-x", &line_kib];
    if replaced.is_some() {
        words.push("-f");
        commands.run("Starts a cache in place of the old one.", &words);
    } else {
        commands.run("Starts a cache on the fast device, if that is empty.", &words);
    }
    let numbers = core_numbers(wanted.slow, replaced.unwrap_or_default());
    for (number, device) in numbers.iter().zip(wanted.slow) {
        commands.run(
            format!("Adds a slow device; use /dev/cas{id}-{number} in its place from now on."),
            &["casadm", "-A", "-i", id, "-j", &number.to_string(), "-d", device],
        );
    }
    set_cutoff(commands, id, settings);
    set_promotion(commands, id, settings.promotion);
    set_cleaning(commands, id, settings.cleaning);
    let mut boot = format!(
        "So that the cache starts at boot, put these lines into /etc/opencas/opencas.conf, under \
         [caches] and under [cores]:\n{id} {} {}",
        wanted.fast,
        settings.mode.word().to_ascii_uppercase()
    );
    for (number, device) in numbers.iter().zip(wanted.slow) {
        boot.push_str(&format!("\n{id} {number} {device}"));
    }
    commands.note(boot);
}

fn change(commands: &mut Commands, id: &str, now: &OpenCas, wanted: &OpenCas) {
    if now.mode != wanted.mode {
        commands.set_change(Change::InPlace);
        if wanted.mode.is_lazy() {
            warn_of_loss(commands);
        }
        let mut words = vec!["casadm", "-Q", "-i", id, "-c", wanted.mode.word()];
        if now.mode.is_lazy() {
            words.extend(["-f", "yes"]);
            commands.run("Changes the mode, after writing back what is dirty.", &words);
        } else {
            commands.run("Changes the mode.", &words);
        }
    }
    if (now.sequential_policy, now.sequential_cutoff_bytes)
        != (wanted.sequential_policy, wanted.sequential_cutoff_bytes)
    {
        commands.set_change(Change::InPlace);
        set_cutoff(commands, id, wanted);
    }
    if now.promotion != wanted.promotion {
        commands.set_change(Change::InPlace);
        set_promotion(commands, id, wanted.promotion);
    }
    if now.cleaning != wanted.cleaning {
        commands.set_change(Change::InPlace);
        set_cleaning(commands, id, wanted.cleaning);
    }
}

fn set_cutoff(commands: &mut Commands, id: &str, settings: &OpenCas) {
    let kib = (settings.sequential_cutoff_bytes >> 10).to_string();
    commands.run(
        "Sets when sequential streams bypass the cache, and from how many KiB on.",
        &[
            "casadm",
            "-X",
            "-n",
            "seq-cutoff",
            "-i",
            id,
            "-p",
            settings.sequential_policy.word(),
            "-t",
            &kib,
        ],
    );
}

fn set_promotion(commands: &mut Commands, id: &str, promotion: OpenCasPromotion) {
    let mut set = |word: &str| {
        commands.run(
            "Sets which lines enter the cache.",
            &["casadm", "-X", "-n", "promotion", "-i", id, "-p", word],
        );
    };
    match promotion {
        OpenCasPromotion::Always => set("always"),
        OpenCasPromotion::Nhit { threshold, trigger_percent } => {
            set("nhit");
            commands.run(
                "Sets by which request a line enters, and from how many percent in use on.",
                &[
                    "casadm",
                    "-X",
                    "-n",
                    "promotion-nhit",
                    "-i",
                    id,
                    "-t",
                    &threshold.to_string(),
                    "-o",
                    &trigger_percent.to_string(),
                ],
            );
        }
    }
}

fn set_cleaning(commands: &mut Commands, id: &str, cleaning: OpenCasCleaning) {
    let mut set = |word: &str| {
        commands.run(
            "Sets how dirty lines are cleaned.",
            &["casadm", "-X", "-n", "cleaning", "-i", id, "-p", word],
        );
    };
    match cleaning {
        OpenCasCleaning::Nop => set("nop"),
        OpenCasCleaning::Alru {
            wake_s,
            staleness_s,
            batch,
            activity_ms,
            dirty_ratio,
            inertia_bytes: _,
        } => {
            set("alru");
            let [wake, staleness, batch, activity, ratio] =
                [wake_s, staleness_s, batch, activity_ms, dirty_ratio].map(|it| it.to_string());
            let mut words = vec![
                "casadm",
                "-X",
                "-n",
                "cleaning-alru",
                "-i",
                id,
                "-w",
                &wake,
                "-s",
                &staleness,
                "-b",
                &batch,
                "-t",
                &activity,
            ];
            let mut comment = "Sets when alru works, on which lines, and on how many at once.";
            if dirty_ratio < 100 {
                words.extend(["-d", &ratio]);
                comment =
                    "Sets when alru works; older releases have no option -d, for dirty lines.";
            }
            commands.run(comment, &words);
        }
        OpenCasCleaning::Acp { wake_ms, batch } => {
            set("acp");
            commands.run(
                "Sets how often acp works, and on how many lines at once.",
                &[
                    "casadm",
                    "-X",
                    "-n",
                    "cleaning-acp",
                    "-i",
                    id,
                    "-w",
                    &wake_ms.to_string(),
                    "-b",
                    &batch.to_string(),
                ],
            );
        }
    }
}
