//! Commands of bcache: `make-bcache`, and files under `/sys`.

use crate::installed::{Bcache, BcacheMode, InstalledCache, InstalledKind};
use crate::size::spelled;

use super::script::{Change, Commands};
use super::shell::{check_name, quoted};
use super::{CommandError, check_percent, is_same_size, remove as remove_installed, warn_of_loss};

const CHECKED_AGAINST: &str = "bcache-tools (commit 494f8d18) and Linux 5.12";

/// bcache as it is recommended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) device: &'a str,
    pub(super) fast: &'a str,
    pub(super) slow: &'a str,
    pub(super) size_bytes: u64,
    pub(super) settings: &'a Bcache,
}

impl Wanted<'_> {
    fn check(&self) -> Result<(), CommandError> {
        check_name("bcache device", self.device)?;
        check_name("fast device", self.fast)?;
        check_name("slow device", self.slow)?;
        check_percent("a writeback percentage", self.settings.writeback_percent, 40)?;
        let (bucket, block) = (self.settings.bucket_bytes, self.settings.block_bytes);
        if !bucket.is_power_of_two() || !block.is_power_of_two() || bucket < block || block < 512 {
            let expected = "give powers of two, from 512 bytes on, with the block in the bucket";
            let value = format!("{bucket} with blocks of {block}");
            return Err(CommandError::setting("a bucket size", &*value, expected));
        }
        Ok(())
    }
}

/// Settings of the kernel where nothing else was set.
const SEQUENTIAL_CUTOFF_BYTES: u64 = 4 << 20;
const WRITEBACK_PERCENT: u64 = 10;
const WRITEBACK_DELAY_S: u64 = 30;
const CONGESTED_READ_US: u64 = 2000;
const CONGESTED_WRITE_US: u64 = 20_000;

pub(super) fn commands(
    wanted: &Wanted<'_>,
    installed: Option<&InstalledCache>,
) -> Result<Commands, CommandError> {
    wanted.check()?;
    let mut commands = Commands::new("bcache", CHECKED_AGAINST);
    let settings = wanted.settings;
    let device = format!("/sys/block/{}/bcache", wanted.device);
    // A link to the set, whatever its name.
    let mut set = format!("{device}/cache");
    let now = match installed {
        Some(InstalledCache {
            name,
            size_bytes,
            kind: InstalledKind::Bcache { set: uuid, settings: now },
            ..
        }) if name == wanted.device => {
            if now.bucket_bytes == settings.bucket_bytes
                && now.block_bytes == settings.block_bytes
                && is_same_size(*size_bytes, wanted.size_bytes)
            {
                set = format!("/sys/fs/bcache/{uuid}");
                now.clone()
            } else {
                commands.set_change(Change::Rebuild);
                remove(&mut commands, name, uuid);
                make_set(&mut commands, wanted);
                // The backing device keeps its settings; the set is new.
                Bcache {
                    replacement: settings.replacement,
                    congested_read_us: CONGESTED_READ_US,
                    congested_write_us: CONGESTED_WRITE_US,
                    ..now.clone()
                }
            }
        }
        installed => {
            commands.set_change(Change::Create);
            if let Some(installed) = installed {
                commands.set_change(Change::Rebuild);
                remove_installed(&mut commands, installed);
            }
            make_both(&mut commands, wanted);
            as_made(settings)
        }
    };
    if settings.mode == BcacheMode::Writeback && now.mode != settings.mode {
        warn_of_loss(&mut commands);
    }
    let writes =
        [device_writes(&device, &now, settings), set_writes(&set, &now, settings)].concat();
    for (comment, value, path) in &writes {
        commands.write(*comment, value, path);
    }
    if !writes.is_empty() {
        if commands.change == Change::None {
            commands.set_change(Change::InPlace);
        }
        commands.note(
            "Settings under /sys are lost at a restart, except the cache mode and the replacement \
             policy; put the other lines into a script that runs at boot.",
        );
    }
    Ok(commands)
}

/// Return the settings of devices that `make-bcache` has just made.
fn as_made(wanted: &Bcache) -> Bcache {
    let is_writeback = wanted.mode == BcacheMode::Writeback;
    Bcache {
        mode: if is_writeback { BcacheMode::Writeback } else { BcacheMode::Writethrough },
        sequential_cutoff_bytes: SEQUENTIAL_CUTOFF_BYTES,
        writeback_percent: WRITEBACK_PERCENT,
        writeback_delay_s: WRITEBACK_DELAY_S,
        congested_read_us: CONGESTED_READ_US,
        congested_write_us: CONGESTED_WRITE_US,
        ..wanted.clone()
    }
}

/// A comment, a value, and the file that it is written to.
type Write = (&'static str, String, String);

/// Return the settings of a backing device that differ.
fn device_writes(folder: &str, now: &Bcache, wanted: &Bcache) -> Vec<Write> {
    let value = |differs: bool, comment, value: String, file: &str| {
        differs.then(|| (comment, value, format!("{folder}/{file}")))
    };
    let writes = [
        value(
            now.mode != wanted.mode,
            "Sets what happens to writes.",
            wanted.mode.word().into(),
            "cache_mode",
        ),
        value(
            now.sequential_cutoff_bytes != wanted.sequential_cutoff_bytes,
            "Sets the length from which on a sequential run bypasses the cache; 0 switches that off.",
            cutoff(wanted.sequential_cutoff_bytes),
            "sequential_cutoff",
        ),
        value(
            now.writeback_percent != wanted.writeback_percent,
            "Sets how many percent of the cache may be dirty.",
            wanted.writeback_percent.to_string(),
            "writeback_percent",
        ),
        value(
            now.writeback_delay_s != wanted.writeback_delay_s,
            "Sets how many seconds pass before writeback starts.",
            wanted.writeback_delay_s.to_string(),
            "writeback_delay",
        ),
    ];
    writes.into_iter().flatten().collect()
}

/// Return the settings of a cache set that differ.
fn set_writes(folder: &str, now: &Bcache, wanted: &Bcache) -> Vec<Write> {
    let mut writes = vec![];
    if now.replacement != wanted.replacement {
        let comment = "Sets which bucket is invalidated next.";
        let path = format!("{folder}/cache0/cache_replacement_policy");
        writes.push((comment, wanted.replacement.word().into(), path));
    }
    for (file, now, wanted) in [
        ("congested_read_threshold_us", now.congested_read_us, wanted.congested_read_us),
        ("congested_write_threshold_us", now.congested_write_us, wanted.congested_write_us),
    ] {
        if now != wanted {
            let comment = "Sets the latency above which requests bypass the fast device; 0 switches that off.";
            writes.push((comment, wanted.to_string(), format!("{folder}/{file}")));
        }
    }
    writes
}

fn say_size(commands: &mut Commands, size_bytes: u64) {
    commands.note(format!(
        "The cache is as large as the fast device: if that is larger than {0}, make a partition of {0} \
         on it.",
        spelled(size_bytes)
    ));
}

/// Add the steps that take a backing device from its set and close the set.
pub(super) fn remove(commands: &mut Commands, device: &str, set: &str) {
    let folder = format!("/sys/block/{device}/bcache");
    commands.write(
        "Detaches the cache, after writing back what is dirty.",
        "1",
        &format!("{folder}/detach"),
    );
    let state = quoted(&format!("{folder}/state"));
    commands.line(
        "Waits until that is done.",
        format!("until [ \"$(cat {state})\" = 'no cache' ]; do sleep 1; done"),
    );
    commands.write(
        "Closes the cache set; other backing devices of it are written back and lose it, too.",
        "1",
        &format!("/sys/fs/bcache/{set}/unregister"),
    );
    let set = quoted(&format!("/sys/fs/bcache/{set}"));
    commands.line("Waits until that is done.", format!("while [ -e {set} ]; do sleep 1; done"));
}

/// Return the arguments that both ways of making a set have.
fn make_arguments(settings: &Bcache) -> Vec<String> {
    vec![
        "make-bcache".into(),
        "--bucket".into(),
        kibibytes(settings.bucket_bytes),
        "--block".into(),
        kibibytes(settings.block_bytes),
        format!("--cache_replacement_policy={}", settings.replacement.word()),
    ]
}

fn run_make(commands: &mut Commands, comment: &str, arguments: &[String], more: &[&str]) {
    let words: Vec<_> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
    commands.run(comment, &words);
    commands.note("Newer tools have `bcache make` in place of `make-bcache`.");
}

fn wait_for_cache(commands: &mut Commands, device: &str) {
    let cache = quoted(&format!("/sys/block/{device}/bcache/cache"));
    commands.line(
        "Waits until the device has its cache.",
        format!("until [ -e {cache} ]; do sleep 1; done"),
    );
}

/// Make a set for a backing device that bcache has already.
fn make_set(commands: &mut Commands, wanted: &Wanted<'_>) {
    say_size(commands, wanted.size_bytes);
    commands
        .run("Removes the old superblock from the fast device.", &["wipefs", "-a", wanted.fast]);
    run_make(
        commands,
        "Formats the fast device as a cache.",
        &make_arguments(wanted.settings),
        &["-C", wanted.fast],
    );
    commands.line(
        "Registers it, unless udev has done that.",
        format!(
            "[ -e /sys/class/block/\"$(basename \"$(readlink -f {0})\")\"/bcache ] || echo {0} > \
                 /sys/fs/bcache/register",
            quoted(wanted.fast)
        ),
    );
    let attach = quoted(&format!("/sys/block/{}/bcache/attach", wanted.device));
    commands.line(
        "Attaches the new set to the backing device.",
        format!(
            "bcache-super-show {} | awk '$1 == \"cset.uuid\" {{ print $2 }}' > {attach}",
            quoted(wanted.fast)
        ),
    );
    wait_for_cache(commands, wanted.device);
}

/// Make a set and a backing device.
fn make_both(commands: &mut Commands, wanted: &Wanted<'_>) {
    say_size(commands, wanted.size_bytes);
    commands.warning(
        "bcache writes a superblock to the slow device, which makes its data unusable: copy the data \
         away first, and back to the new device afterwards",
    );
    let mut arguments = make_arguments(wanted.settings);
    if wanted.settings.mode == BcacheMode::Writeback {
        warn_of_loss(commands);
        arguments.push("--writeback".into());
    }
    run_make(
        commands,
        "Formats both devices, and attaches them to one another.",
        &arguments,
        &["-C", wanted.fast, "-B", wanted.slow],
    );
    commands.note(
        "If the new device gets another number than the one in the lines below, change it there.",
    );
    wait_for_cache(commands, wanted.device);
}

/// Write a size as the manual of `make-bcache` does.
fn kibibytes(bytes: u64) -> String {
    if bytes != 0 && bytes.is_multiple_of(1024) {
        format!("{}k", bytes >> 10)
    } else {
        bytes.to_string()
    }
}

/// Write a size as the kernel's document does, with a capital M.
fn cutoff(bytes: u64) -> String {
    if bytes != 0 && bytes.is_multiple_of(1 << 20) {
        format!("{}M", bytes >> 20)
    } else {
        kibibytes(bytes)
    }
}
