//! Block devices: loop devices over files, for root only.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Cache, fails, flush, text};

/// A loop device over a file.
pub(super) struct Loop(pub(super) String);

impl Loop {
    /// Create a block device over a file; without the right to create one, report that and return
    /// `None`.
    pub(super) fn over(file: &Path) -> Option<Self> {
        Self::with(file, &[])
    }

    /// As [`over`](Self::over), with more options of `losetup`.
    fn with(file: &Path, options: &[&str]) -> Option<Self> {
        let words = ["--find", "--show", "--direct-io=off"];
        let made = Command::new("losetup")
            .args(words)
            .args(options)
            .arg(file)
            .stderr(Stdio::null())
            .output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Self(String::from_utf8(made.stdout).unwrap().trim().to_owned()))
            }
            _ => {
                eprintln!("skipped: only root can make loop devices");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["--detach", &self.0]).status());
    }
}

/// Return `true` if a command that needs rights or a program succeeded.
fn succeeds(program: &str, words: &[&str]) -> bool {
    let mut run = Command::new(program);
    run.args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn a_mounted_file_system_is_neither_a_disk_nor_a_flash() {
    let mut cache = Cache::new(8);
    let Some(device) = Loop::over(&cache.path("disk.img")) else { return };
    let folder = cache.file("mounted");
    std::fs::create_dir(&folder).unwrap();
    if !succeeds("mkfs.ext4", &["-q", &device.0])
        || !succeeds("mount", &["-o", "ro", &device.0, &folder])
    {
        eprintln!("skipped: `mkfs.ext4` is not there (Debian package e2fsprogs), or cannot mount");
        return;
    }
    let before = cache.bytes("disk.img");
    cache.set("backing.path", device.0.as_str());
    cache.write_config();
    let mut flash = Cache::new(8);
    flash.set("flash.path", device.0.as_str());
    flash.write_config();
    let (as_disk, as_flash) = (cache.file("cache.toml"), flash.file("cache.toml"));
    std::thread::scope(|scope| {
        let words = [("backing.path", &as_disk), ("flash.path", &as_flash)];
        for (key, config) in words {
            let device = &device.0;
            scope.spawn(move || {
                let parts = [key, device, "mounted or in use"];
                fails(&["serve", config], &parts);
                fails(&["serve", config, "--force-init"], &parts);
            });
        }
    });
    assert!(cache.bytes("disk.img") == before, "a refusal changed the device");
    assert!(succeeds("umount", &[&folder]));
    // It is free now.
    cache.start_with(&["--force-init"]).stop();
}

#[test]
fn no_file_is_made_in_the_place_of_a_device() {
    let mut cache = Cache::new(8);
    let name = "/dev/thermocline-test-absent";
    cache.set("flash.path", name);
    cache.refused(&[], &["flash.path", name, "no such device"]);
    cache.refused(&["--force-init"], &["flash.path", name, "no such device"]);
    assert!(!Path::new(name).exists());
}

#[test]
fn the_note_of_a_block_device_survives_its_node() {
    let mut cache = Cache::new(8);
    let Some(device) = Loop::over(&cache.path("disk.img")) else { return };
    cache.set("backing.path", device.0.as_str()).set("state_dir", "state");
    let engine = cache.start();
    let mut client = engine.client();
    client.write(0, &[5; 4096]).unwrap();
    flush(&mut client);
    engine.kill();
    let beside = format!("{}.thermocline", device.0);
    assert!(!Path::new(&beside).exists(), "{beside}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cache.path("state")), 0o700);
    let notes: Vec<_> = std::fs::read_dir(cache.path("state")).unwrap().flatten().collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(mode(&notes[0].path()), 0o600);
    // The same device under another number.
    drop(device);
    let (Some(first), Some(device)) =
        (Loop::over(&cache.path("flash.img")), Loop::over(&cache.path("disk.img")))
    else {
        return;
    };
    cache.set("backing.path", device.0.as_str()).unset("flash").set("policy.name", "lru");
    cache.refused(&[], &["backing.path", &device.0, "newer bytes"]);
    // A note that an earlier version wrote beside the node counts as well.
    let beside = format!("{}.thermocline", device.0);
    std::fs::copy(notes[0].path(), &beside).unwrap();
    std::fs::remove_file(notes[0].path()).unwrap();
    cache.refused(&[], &["backing.path", &device.0, "newer bytes"]);
    drop(first);
    let (flash, state) = (cache.file("flash.img"), cache.file("state"));
    text(&["cache", "drain", &flash, "--backing", &device.0, "--state-dir", &state]);
    assert!(!Path::new(&beside).exists(), "it was moved");
    cache.start().stop();
    assert_eq!(cache.bytes("disk.img")[..4096], [5; 4096]);
}

#[test]
fn a_loop_device_and_its_file_are_one_device() {
    let mut cache = Cache::new(8);
    let disk = cache.path("disk.img");
    let Some(device) = Loop::over(&disk) else { return };
    let before = cache.bytes("disk.img");
    for (backing, flash) in [("disk.img", &*device.0), (&device.0, "disk.img")] {
        cache.set("backing.path", backing).set("flash.path", flash);
        for words in [&["--check"][..], &[], &["--force-init"]] {
            cache.refused(words, &["`flash.path`", "was given twice"]);
        }
    }
    cache.set("backing.path", "other.img").set("flash.path", device.0.as_str());
    File::create(cache.path("other.img")).unwrap().set_len(8 << 20).unwrap();
    cache.set("flash.mirror", "disk.img").set("policy.name", "lru-inclusive");
    cache.refused(&["--check"], &["`flash.path` and `flash.mirror`", "was given twice"]);
    cache.refused(&[], &["was given twice"]);
    cache.unset("flash.mirror");
    // Two loop devices over the same file.
    let Some(second) = Loop::over(&disk) else { return };
    cache.set("backing.path", second.0.as_str());
    cache.refused(&[], &["`flash.path`", "was given twice"]);
    drop(second);
    assert!(cache.bytes("disk.img") == before, "a refusal changed the file");
    // Two parts of a file have no bytes in common.
    let half = (4_u64 << 20).to_string();
    let Some(second) = Loop::with(&disk, &["--offset", &half]) else { return };
    drop(device);
    let Some(first) = Loop::with(&disk, &["--sizelimit", &half]) else { return };
    cache.set("backing.path", second.0.as_str()).set("flash.path", first.0.as_str());
    cache.set("flash.size", "2MiB");
    cache.start().stop();
    cache.set("flash.path", "disk.img");
    cache.refused(&[], &["`flash.path`", "was given twice"]);
}
