//! Starting: what is served, what is refused, and that a refusal changes nothing.

use std::os::unix::fs::FileTypeExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Cache, fails, flush, text};

/// The smallest configuration, a contract; but for the port, which tests share with others.
const SMALLEST: &str = r#"
[backing]
path = "disk.img"        # file or block device; or nbd = "nbd+unix:///?socket=disk.sock"
[flash]
path = "flash.img"
size = "256MiB"
[ram]
size = "64MiB"
[policy]
name = "hat"
[nbd]
socket = "thermocline.sock"   # or listen = "127.0.0.1:10809"
[metrics]
listen = "127.0.0.1:9469"
"#;

/// Return a page of that byte.
fn page(byte: u8) -> Vec<u8> {
    vec![byte; 4096]
}

/// Return a cache with that text as its configuration, on a port that is free.
fn configured(text: &str) -> Cache {
    let mut cache = Cache::new(8);
    cache.replace(text).set("metrics.listen", "127.0.0.1:0");
    cache
}

/// Return a cache that was killed when its flash had newer bytes of the first pages than the disk.
pub(crate) fn dirty(pages: u8) -> Cache {
    let cache = Cache::new(8);
    let engine = cache.start();
    let mut client = engine.client();
    for number in 0..pages {
        client.write(u64::from(number) * 4096, &page(number + 1)).unwrap();
    }
    flush(&mut client);
    engine.kill();
    cache
}

/// Return the bytes of all that a start may write to.
fn devices(cache: &Cache) -> Vec<Option<Vec<u8>>> {
    ["disk.img", "flash.img", "disk.img.thermocline"]
        .map(|name| std::fs::read(cache.path(name)).ok())
        .to_vec()
}

/// Check that the server does not start, says why, and leaves all devices as they were.
#[track_caller]
pub(crate) fn refused(cache: &Cache, parts: &[&str]) {
    let before = devices(cache);
    cache.refused(&[], parts);
    assert!(devices(cache) == before, "a refusal changed a device");
}

#[test]
fn a_file_that_is_not_a_configuration_is_refused_in_a_sentence() {
    let cache = configured(SMALLEST);
    std::fs::write(cache.path("long.toml"), "# \n".repeat(6 << 20)).unwrap();
    for (file, said) in [
        (cache.file("disk.img"), "not a text file"),
        ("/dev/zero".to_owned(), "not a text file"),
        (cache.file("long.toml"), "more than 16 MiB"),
        (cache.file("absent.toml"), "No such file"),
    ] {
        let error = fails(&["serve", "--check", &file], &[&file, said]);
        assert!(error.len() < 400, "{error}");
    }
}

#[test]
fn the_smallest_configuration_is_served() {
    let cache = configured(SMALLEST);
    cache.write_config();
    assert!(text(&["serve", "--check", &cache.file("cache.toml")]).contains("can be served"));
    assert!(!cache.path("flash.img").exists(), "a check sets nothing up");
    let engine = cache.start();
    let mut client = engine.client();
    assert_eq!(client.agreed.size_bytes, 8 << 20);
    client.write(4096, &page(7)).unwrap();
    assert_eq!(client.read(4096, 4096).unwrap(), page(7));
    let status = engine.status();
    assert_eq!(status["policy"], "hat");
    assert_eq!(status["capacity_pages"], serde_json::json!([16_384, 65_536]));
    engine.stop();
    assert_eq!(cache.start().client().read(4096, 4096).unwrap(), page(7));
}

#[test]
fn the_socket_has_the_mode_that_the_configuration_gives() {
    use std::os::unix::fs::MetadataExt as _;

    let mut cache = Cache::new(1);
    let mode = |cache: &Cache| {
        let engine = cache.start();
        engine.client().write(0, &page(1)).unwrap();
        let mode = std::fs::metadata(engine.socket()).unwrap().mode() & 0o7777;
        engine.stop();
        mode
    };
    assert_eq!(mode(&cache), 0o600);
    cache.set("nbd.socket_mode", "0660");
    assert_eq!(mode(&cache), 0o660);
    // The owner that the socket has anyway, by number.
    let file = std::fs::metadata(cache.path("disk.img")).unwrap();
    cache.set("nbd.socket_owner", i64::from(file.uid()));
    cache.set("nbd.socket_group", i64::from(file.gid()));
    assert_eq!(mode(&cache), 0o660);
    if file.uid() == 0 {
        cache.set("nbd.socket_owner", "root").set("nbd.socket_group", "root");
        assert_eq!(mode(&cache), 0o660);
    }
    for key in ["nbd.socket_owner", "nbd.socket_group"] {
        let mut cache = Cache::new(1);
        cache.set(key, "nobody at home");
        refused(&cache, &[key, "`nobody at home`"]);
        assert!(!cache.path("flash.img").exists());
    }
}

#[test]
fn clients_that_nobody_knows_need_leave() {
    let warning = "clients need no authentication";
    let mut cache = Cache::new(1);
    let engine = cache.start();
    assert!(!engine.log().contains(warning), "{}", engine.log());
    engine.stop();
    cache.set("nbd.listen", "0.0.0.0:0").set("nbd.remote", true);
    refused(&cache, &["nbd.listen", "0.0.0.0:0", "`nbd.allow_unauthenticated = true`"]);
    cache.set("nbd.allow_unauthenticated", true);
    let engine = cache.start();
    assert_eq!(engine.log().matches(warning).count(), 1, "{}", engine.log());
    engine.stop();
}

#[test]
fn a_server_that_hangs_leaves_its_watchdog_alone() {
    const LIMIT: Duration = Duration::from_secs(2);

    let cache = Cache::new(1);
    let (engine, manager) = cache.start_notified(&[], &[("WATCHDOG_USEC", "2000000")]);
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let is_alive = || {
        let mut message = [0; 256];
        manager.recv(&mut message).is_ok_and(|length| message[..length].starts_with(b"WATCHDOG=1"))
    };
    assert!(is_alive() && is_alive() && is_alive(), "{}", engine.log());
    // The loop reads its configuration from a pipe that nobody has written to.
    let config = cache.path("cache.toml");
    std::fs::remove_file(&config).unwrap();
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    engine.signal("HUP");
    let deadline = Instant::now() + 10 * LIMIT;
    while is_alive() {
        assert!(Instant::now() < deadline, "a loop that hangs must not report");
    }
    std::fs::write(&config, "nothing").unwrap();
    assert!(is_alive(), "{}", engine.log());
    engine.stop();
}

#[test]
fn the_example_is_a_configuration() {
    let example = text(&["serve", "--example-config"]);
    let cache = configured(&example);
    cache.write_config();
    text(&["serve", "--check", &cache.file("cache.toml")]);
    let engine = cache.start();
    engine.client().write(0, &page(1)).unwrap();
    engine.stop();
    fails(&["serve"], &["--example-config"]);
    fails(&["serve", "nowhere.toml"], &["nowhere.toml"]);
}

#[test]
fn a_bad_configuration_is_refused_by_its_key() {
    type Change = fn(&mut Cache) -> &mut Cache;
    let cases: [(Change, &[&str]); 16] = [
        (|cache| cache.set("flash.sise", 1), &["unknown field `sise`", "size"]),
        (|cache| cache.set("mode", "back"), &["unknown field `mode`"]),
        (|cache| cache.unset("backing"), &["missing field `backing`"]),
        (|cache| cache.set("ram.size", "1 XB"), &["1 XB", "64MiB"]),
        (|cache| cache.set("ram.size", 100), &["ram.size", "at least a page"]),
        (|cache| cache.set("page_size", "5KiB"), &["page_size", "multiple of 4KiB"]),
        (|cache| cache.set("write_mode", "sideways"), &["sideways", "read-only"]),
        (|cache| cache.set("policy.name", "hatt"), &["policy.name", "hat"]),
        (
            |cache| cache.set("policy.parameters", toml::toml! { zz = 3 }),
            &["policy.parameters", "zz"],
        ),
        (|cache| cache.unset("flash"), &["policy.name", "[flash]"]),
        (|cache| cache.set("backing.path", "nothing.img"), &["backing.path", "nothing.img"]),
        (|cache| cache.set("flash.write_budget_gib_per_day", 0), &["write_budget", "above 0"]),
        (|cache| cache.unset("nbd.socket"), &["[nbd]", "socket", "listen"]),
        (|cache| cache.set("nbd.listen", "0.0.0.0:0"), &["nbd.listen", "remote"]),
        (|cache| cache.set("shadow", vec!["hat:ram=0x"]), &["shadow", "hat:ram=0x"]),
        (|cache| cache.set("metrics.listen", "127.0.0.1:1"), &["metrics.listen", "127.0.0.1:1"]),
    ];
    for (change, parts) in cases {
        let mut cache = Cache::new(1);
        change(&mut cache);
        // The last is no fault of the configuration, but of who may listen there.
        if parts[0] == "metrics.listen" {
            let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = taken.local_addr().unwrap().to_string();
            cache.set("metrics.listen", address.as_str());
            refused(&cache, &["metrics.listen", &address]);
            continue;
        }
        refused(&cache, parts);
        assert!(!cache.path("flash.img").exists(), "{parts:?}");
    }
}

#[test]
fn a_place_that_cannot_be_listened_at_leaves_the_backing_store_free() {
    let mut cache = Cache::new(1);
    cache.set("nbd.socket", "no/folder/thermocline.sock");
    cache.refused(&[], &["`nbd.socket`: cannot listen at", "no/folder/thermocline.sock"]);
    cache.set("nbd.socket", "thermocline.sock").unset("flash").set("policy.name", "lru");
    cache.start().stop();
}

/// Return the names of the server's sockets in a cache's folder.
fn sockets(cache: &Cache) -> Vec<String> {
    let files = std::fs::read_dir(cache.path("")).unwrap().map(|file| file.unwrap());
    let sockets = files.filter(|file| file.file_type().unwrap().is_socket());
    let mut names: Vec<_> = sockets.map(|file| file.file_name().into_string().unwrap()).collect();
    // The tests wait for the server there.
    names.retain(|name| !name.starts_with("notify."));
    names.sort();
    names
}

#[test]
fn a_server_removes_its_sockets() {
    let mut cache = Cache::new(8);
    cache.set("vhost_user.socket", "vhost.sock");
    let all = ["thermocline.sock", "thermocline.sock.control", "vhost.sock"];
    let engine = cache.start();
    assert_eq!(sockets(&cache), all);
    engine.kill();
    // The remains of a killed server block nobody.
    assert_eq!(sockets(&cache), all);
    let engine = cache.start();
    assert_eq!(sockets(&cache), all);
    engine.stop();
    assert_eq!(sockets(&cache), <[&str; 0]>::default());
    // A file that is no socket stays.
    std::fs::write(cache.path("mine"), "words").unwrap();
    cache.set("control.socket", "mine");
    let parts = ["`control.socket`: cannot listen at", "mine", "not a socket is in the way"];
    cache.refused(&[], &parts);
    assert_eq!(cache.bytes("mine"), b"words");
    assert_eq!(sockets(&cache), <[&str; 0]>::default());
}

#[test]
fn devices_have_one_server() {
    let cache = Cache::new(8);
    let engine = cache.start();
    engine.client().write(0, &page(3)).unwrap();
    flush(&mut engine.client());
    let mut other = Cache::new(8);
    other.set("flash.path", cache.file("flash.img"));
    other.write_config();
    let (config, other_config) = (cache.file("cache.toml"), other.file("cache.toml"));
    let flash = cache.file("flash.img");
    let before = (devices(&cache), devices(&other));
    // Each waits for a while, in case that the lock is of an engine which has just ended.
    let commands = [
        (vec!["serve", &config], vec!["backing.path", "disk.img", "in use"]),
        (vec!["serve", &other_config], vec!["flash.path", "flash.img", "in use"]),
        (vec!["cache", "inspect", &flash], vec!["waiting up to 10 seconds", "flash.img", "in use"]),
        (vec!["cache", "check", &flash], vec!["flash.img", "in use"]),
        (vec!["cache", "forget", "--yes", &flash], vec!["flash.img", "in use"]),
    ];
    std::thread::scope(|scope| {
        for (words, parts) in &commands {
            scope.spawn(move || fails(words, parts));
        }
    });
    assert!(before == (devices(&cache), devices(&other)), "a refusal changed a device");
    assert_eq!(engine.client().read(0, 4096).unwrap(), page(3));
}

#[test]
fn of_two_that_start_at_once_one_serves_and_the_other_changes_nothing() {
    const ROUNDS: usize = 10;
    let round = || {
        let cache = dirty(3);
        let flash = cache.file("flash.img");
        let starts = |cache: &Cache| {
            let flash = cache.file("flash.img");
            crate::json(&["cache", "inspect", &flash, "--json"])["starts"].as_u64().unwrap()
        };
        let before = starts(&cache);
        let mut other = Cache::new(8);
        other.set("flash.path", flash.as_str()).set("backing.path", cache.file("disk.img"));
        let mut both = [&cache, &other].map(|cache| {
            cache.write_config();
            let log = std::fs::File::create(cache.path("log")).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
            command.arg("serve").arg(cache.path("cache.toml")).stderr(log).spawn().unwrap()
        });
        // One gives up, and the one that serves would never end by itself.
        let (loser, status) = loop {
            let ended = both.iter_mut().map(|process| process.try_wait().unwrap());
            if let Some(ended) = ended.enumerate().find_map(|(at, end)| Some((at, end?))) {
                break ended;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let caches = [&cache, &other];
        let said = String::from_utf8(caches[loser].bytes("log")).unwrap();
        let winner = &mut both[1 - loser];
        let socket = caches[1 - loser].path("thermocline.sock");
        let mut client = crate::Client::connect(&socket, "").unwrap();
        let bytes = client.read(4096, 4096).unwrap();
        client.write(4096, &page(9)).unwrap();
        flush(&mut client);
        winner.kill().unwrap();
        winner.wait().unwrap();
        assert!(!status.success() && said.contains("in use"), "{said}");
        assert_eq!(bytes, page(2));
        assert_eq!(starts(&cache), before + 1, "the loser began an epoch, too");
        assert_eq!(cache.start().client().read(4096, 4096).unwrap(), page(9));
    };
    std::thread::scope(|scope| {
        for _ in 0..ROUNDS {
            scope.spawn(round);
        }
    });
}

#[test]
fn a_disk_is_no_flash_of_its_own() {
    let mut cache = Cache::new(8);
    let (disk, link, hard) = ("disk.img", "link.img", "hard.img");
    std::os::unix::fs::symlink(cache.path(disk), cache.path(link)).unwrap();
    std::fs::hard_link(cache.path(disk), cache.path(hard)).unwrap();
    for name in [disk, link, hard] {
        refused(cache.set("flash.path", name), &["flash.path", name, "given twice"]);
        cache.refused(&["--force-init"], &["flash.path", name, "given twice"]);
    }
    assert!(cache.bytes(disk) == vec![0; 8 << 20]);
}

#[test]
fn a_foreign_flash_is_not_overwritten() {
    let cache = Cache::new(8);
    // Something whose first blocks are empty, as those of some file systems are.
    let mut foreign = vec![0; 8 << 20];
    foreign[1 << 20..2 << 20].fill(0x5a);
    std::fs::write(cache.path("flash.img"), &foreign).unwrap();
    refused(&cache, &["flash.path", "flash.img", "not a flash of thermocline", "--force-init"]);
    for command in ["inspect", "check", "forget"] {
        fails(
            &["cache", command, &cache.file("flash.img")],
            &["flash.img", "not a flash of thermocline"],
        );
    }
    assert!(cache.bytes("flash.img") == foreign);
    let engine = cache.start_with(&["--force-init"]);
    engine.client().write(0, &page(1)).unwrap();
    engine.stop();
    cache.start().stop();
}

#[test]
fn a_flash_belongs_to_one_backing_store() {
    let cache = dirty(3);
    let note = cache.bytes("disk.img.thermocline");
    // Another store of the same size, which never had a cache.
    let mut other = Cache::new(8);
    other.set("flash.path", cache.file("flash.img"));
    refused(&other, &["flash.path", "another backing store"]);
    let (flash, disk) = (cache.file("flash.img"), other.file("disk.img"));
    fails(
        &["cache", "drain", &flash, "--backing", &disk],
        &["another backing store", "disk.img.thermocline"],
    );
    assert!(other.bytes("disk.img").iter().all(|&byte| byte == 0));
    // One that has a cache of its own, which is clean.
    let mut third = Cache::new(8);
    third.set("write_mode", "through");
    third.start().stop();
    third.set("flash.path", cache.file("flash.img"));
    refused(&third, &["flash.path", "another backing store"]);
    // A shorter one.
    let mut shorter = Cache::new(7);
    shorter.set("flash.path", cache.file("flash.img"));
    std::fs::write(shorter.path("disk.img.thermocline"), note).unwrap();
    refused(&shorter, &["flash.path", "8388608", "7340032"]);
    // Its own is served.
    assert_eq!(cache.start().client().read(4096, 4096).unwrap(), page(2));
}

#[test]
fn a_shorter_flash_is_refused() {
    let cache = dirty(1);
    let flash = std::fs::File::options().write(true).open(cache.path("flash.img")).unwrap();
    let length = flash.metadata().unwrap().len();
    flash.set_len(length - 4096).unwrap();
    let (found, wanted) = ((length - 4096).to_string(), length.to_string());
    refused(&cache, &["flash.path", "flash.img", &found, &wanted]);
}

#[test]
fn a_backing_store_is_not_served_without_what_is_newer() {
    let mut cache = dirty(2);
    cache.unset("flash").set("policy.name", "lru");
    refused(&cache, &["backing.path", "newer bytes", "thermocline cache forget"]);
    cache.set("flash.path", "other.img").set("flash.size", "4MiB");
    refused(&cache, &["newer bytes"]);
    assert!(!cache.path("other.img").exists(), "no flash is set up that cannot be served");
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    text(&["cache", "drain", &flash, "--backing", &disk, "--keep-clean"]);
    cache.unset("flash");
    let engine = cache.start();
    assert_eq!(engine.client().read(4096, 4096).unwrap(), page(2));
    engine.client().write(4096, &page(9)).unwrap();
    engine.stop();
    // The flash still has a version of the page that is older than the one written without it.
    cache.set("flash.path", "flash.img").set("flash.size", "4MiB");
    refused(&cache, &["flash.path", "served without it", "--force-init"]);
    let engine = cache.start_with(&["--force-init"]);
    assert_eq!(engine.client().read(4096, 4096).unwrap(), page(9));
}

#[test]
fn a_disk_is_the_same_by_whatever_name() {
    for name in ["link.img", "folder/link.img", "hard.img"] {
        let mut cache = dirty(2);
        std::fs::create_dir(cache.path("folder")).unwrap();
        match name {
            "hard.img" => std::fs::hard_link(cache.path("disk.img"), cache.path(name)).unwrap(),
            _ => std::os::unix::fs::symlink(cache.path("disk.img"), cache.path(name)).unwrap(),
        }
        cache.unset("flash").set("policy.name", "lru").set("backing.path", name);
        refused(&cache, &["backing.path", name, "newer bytes"]);
        // With its flash it is served by that name, and is dirty by the first.
        cache.set("flash.path", "flash.img").set("flash.size", "4MiB").set("policy.name", "hat");
        let engine = cache.start();
        assert_eq!(engine.client().read(4096, 4096).unwrap(), page(2), "{name}");
        engine.kill();
        cache.unset("flash").set("policy.name", "lru").set("backing.path", "disk.img");
        refused(&cache, &["backing.path", "disk.img", "newer bytes"]);
        assert!(cache.path("disk.img.thermocline").exists());
        let mode = std::fs::metadata(cache.path("disk.img.thermocline")).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
        let (flash, disk) = (cache.file("flash.img"), cache.file(name));
        text(&["cache", "drain", &flash, "--backing", &disk]);
        cache.start().stop();
    }
}

#[test]
fn a_note_that_an_earlier_version_wrote_beside_a_link_counts() {
    let mut cache = dirty(2);
    std::os::unix::fs::symlink(cache.path("disk.img"), cache.path("link.img")).unwrap();
    let (note, former) = ("disk.img.thermocline", "link.img.thermocline");
    std::fs::rename(cache.path(note), cache.path(former)).unwrap();
    cache.unset("flash").set("policy.name", "lru").set("backing.path", "link.img");
    refused(&cache, &["backing.path", "newer bytes"]);
    cache.set("flash.path", "flash.img").set("flash.size", "4MiB");
    cache.set("policy.name", "hat").start().kill();
    assert!(cache.path(note).exists() && !cache.path(former).exists(), "it was moved");
    cache.unset("flash").set("policy.name", "lru").set("backing.path", "disk.img");
    refused(&cache, &["backing.path", "newer bytes"]);
}

#[test]
fn force_gives_up_what_the_flash_has() {
    let cache = dirty(2);
    let engine = cache.start_with(&["--force-init"]);
    assert_eq!(engine.client().read(4096, 4096).unwrap(), page(0));
    assert_eq!(engine.status()["dirty_pages"], 0);
    engine.stop();
}

#[test]
fn force_does_not_give_up_a_flash_that_it_was_not_given() {
    let mut cache = dirty(2);
    let other = dirty(1);
    std::fs::write(cache.path("blank.img"), vec![0; 8 << 20]).unwrap();
    for wrong in [other.file("flash.img"), cache.file("blank.img"), cache.file("new.img")] {
        let before = (std::fs::read(&wrong).ok(), devices(&cache));
        cache.set("flash.path", wrong.as_str());
        cache.refused(&["--force-init"], &["flash.path", "newer bytes", "cache forget --backing"]);
        assert!(before == (std::fs::read(&wrong).ok(), devices(&cache)), "{wrong}");
    }
    cache.set("flash.path", "flash.img");
    assert_eq!(cache.start().client().read(4096, 4096).unwrap(), page(2));
    text(&["cache", "forget", "--backing", &cache.file("disk.img"), "--yes"]);
    cache.set("flash.path", "blank.img").start_with(&["--force-init"]).stop();
}

#[test]
fn a_blank_file_takes_the_size_that_it_should_have() {
    for bytes in [0, 4096, 1 << 20] {
        let cache = Cache::new(8);
        // As a start that was killed before it had written anything leaves it.
        std::fs::write(cache.path("flash.img"), vec![0; bytes]).unwrap();
        let engine = cache.start();
        engine.client().write(0, &page(4)).unwrap();
        engine.stop();
        assert_eq!(cache.start().client().read(0, 4096).unwrap(), page(4));
    }
}

#[test]
fn a_new_flash_has_its_space_set_aside() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let cache = Cache::new(8);
    cache.start().stop();
    let flash = std::fs::metadata(cache.path("flash.img")).unwrap();
    assert_eq!(flash.permissions().mode() & 0o777, 0o600);
    assert!(flash.blocks() * 512 >= flash.len(), "{} of {}", flash.blocks() * 512, flash.len());
}

#[test]
fn an_old_copy_of_the_flash_is_refused() {
    let cache = dirty(2);
    std::fs::copy(cache.path("flash.img"), cache.path("old.img")).unwrap();
    let engine = cache.start();
    engine.client().write(0, &page(8)).unwrap();
    engine.stop();
    std::fs::rename(cache.path("old.img"), cache.path("flash.img")).unwrap();
    refused(&cache, &["flash.path", "old copy"]);
}
