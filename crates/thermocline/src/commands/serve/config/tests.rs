//! Tests of configurations: the example, what is refused, and what paths are relative to.

use std::num::NonZeroU64;

use thermocline_core::Clients;
use thermocline_core::registry::{self, Future, PolicyEntry};
use thermocline_engine::Cleaning;
use thermocline_lab::spec::{HierarchySpec, TierSpec};
use thermocline_lab::{RunOptions, Summary, TierSize, Watch};

use super::*;

const SMALLEST: &str = r#"
        [backing]
        path = "disk.img"
        [flash]
        path = "flash.img"
        size = "256MiB"
        [ram]
        size = "64MiB"
        [policy]
        name = "hat"
        [nbd]
        socket = "thermocline.sock"
        [metrics]
        listen = "127.0.0.1:9469"
"#;

/// Return the example with each key in force, but for one of each two that exclude each other.
fn uncommented() -> String {
    let is_key = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    EXAMPLE
        .lines()
        .map(|line| if is_key(line) { &line[1..] } else { line })
        .filter(|line| !line.starts_with("path = \"disk") && !line.starts_with("drive = "))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_smallest_configuration_is_a_contract() {
    let config = Config::parse(SMALLEST).unwrap();
    assert_eq!(config.ram.size, Bytes(64 << 20));
    assert_eq!(config.flash.as_ref().unwrap().size, Bytes(256 << 20));
    assert_eq!(config.pages("ram.size", config.ram.size).unwrap(), 16_384);
    assert_eq!(config.cleaning.now(), Cleaning::default());
}

#[test]
fn the_example_starts_from_the_best_single_policy_of_the_bundled_trace() {
    let config = Config::parse(EXAMPLE).unwrap();
    let flash = config.flash.as_ref().unwrap().size.0 as f64 / config.ram.size.0 as f64;
    let sizes = [("ram", TierSize::FootprintPercent(2.0)), ("flash", TierSize::TimesAbove(flash))];
    let tiers = sizes.map(|(name, size)| TierSpec::new(name, &[size])).to_vec();
    let spec = HierarchySpec { tiers, ..HierarchySpec::default() };
    let can_serve = |entry: &&PolicyEntry| {
        entry.capabilities.depth.allows(2)
            && entry.capabilities.future == Future::Unknown
            && entry.name != "auto"
    };
    let policies: Vec<_> = registry::entries().filter(can_serve).cloned().collect();
    let all = thermocline_lab::configurations(&spec, &policies, Clients::ONE).unwrap();
    let trace = thermocline_lab::bundled_trace().unwrap();
    let found =
        thermocline_lab::compare(&trace, &all, RunOptions::default(), &Watch::default(), || ());
    let found = found.unwrap();
    let by_time = |one: &&Summary, other: &&Summary| one.io_time_ms.total_cmp(&other.io_time_ms);
    assert_eq!(config.policy.name, found.iter().min_by(by_time).unwrap().policy.name);
}

#[test]
fn the_example_shows_every_key_and_its_default() {
    let plain = Config::parse(EXAMPLE).unwrap();
    let full = Config::parse(&uncommented()).unwrap();
    assert_eq!(full.page_size, plain.page_size);
    assert_eq!(full.backing.timeout(), plain.backing.timeout());
    assert_eq!(full.backing.grace(), plain.backing.grace());
    assert_eq!(full.write_mode, plain.write_mode);
    assert_eq!(full.shadow_sample.to_bits(), plain.shadow_sample.to_bits());
    let [clean, default] = [full.cleaning.now(), plain.cleaning.now()];
    assert_eq!(clean.pages_per_second_max, default.pages_per_second_max);
    assert_eq!(clean.pages_in_flight_max, default.pages_in_flight_max);
    assert_eq!(full.cleaning.dirty_ratio, Some(Cleaning::default().dirty_ratio_target));
    assert!(clean.idle_after.is_some() && default.idle_after.is_none());
    assert_eq!(full.cleaning.drain_at_exit, plain.cleaning.drain_at_exit);
    assert!(!full.policy.parameters.is_empty());
    assert_eq!(full.io.engine, plain.io.engine);
    assert_eq!(full.io.direct, plain.io.direct);
    assert_eq!(full.log.level, plain.log.level);
    assert_eq!(full.log.format, plain.log.format);
    assert!(full.nbd.tls.is_some());
    let send_limit = thermocline_nbd::server::Settings::default().send_limit;
    assert_eq!(full.nbd.send_timeout, Some(send_limit.as_secs()));
    assert_eq!(full.nbd.idle_timeout, plain.nbd.idle_timeout);
    assert_eq!(full.nbd.client_rates(), plain.nbd.client_rates());
    let path = full.record.as_ref().unwrap().path.clone();
    let text = format!("{SMALLEST}\n[record]\npath = {path:?}");
    assert_eq!(full.record, Config::parse(&text).unwrap().record);
}

#[test]
fn time_limits_of_clients_are_a_year_at_most() {
    for name in ["send_timeout", "idle_timeout"] {
        let parse = |seconds: u64| {
            let text = SMALLEST.replace("[nbd]", &format!("[nbd]\n{name} = {seconds}"));
            Config::parse(&text)
        };
        parse(NBD_TIMEOUT_MAX_S).unwrap();
        for seconds in [NBD_TIMEOUT_MAX_S + 1, i64::MAX.unsigned_abs()] {
            let error = format!("{:#}", parse(seconds).unwrap_err());
            assert!(error.contains(&format!("`nbd.{name}` is {seconds} seconds")), "{error}");
        }
    }
}

#[test]
fn rates_of_clients_are_above_a_page_per_second() {
    let rates = |lines: &str| {
        let text = SMALLEST.replace("[nbd]", &format!("[nbd]\n{lines}"));
        let rates = Config::parse(&text).unwrap().nbd.client_rates();
        [rates.requests_per_second, rates.bytes_per_second].map(|rate| rate.map(NonZeroU64::get))
    };
    let [requests, bytes] = ["client_requests_per_second", "client_bytes_per_second"];
    assert_eq!(rates(""), [None, None]);
    assert_eq!(rates(&format!("{requests} = 0\n{bytes} = 0")), [None, None]);
    let given = rates(&format!("{requests} = 1\n{bytes} = \"100MiB\""));
    assert_eq!(given, [Some(1), Some(100 << 20)]);
    refuse("[nbd]", &format!("[nbd]\n{requests} = -1"), "invalid value: integer `-1`");
    refuse("[nbd]", &format!("[nbd]\n{requests} = 0.5"), "client_requests_per_second = 0.5");
    refuse("[nbd]", &format!("[nbd]\n{bytes} = \"fast\""), "a number of bytes, as in");
    let few = format!("`nbd.{bytes}` is 100 bytes: it must be at least a page, 4096 bytes");
    refuse("[nbd]", &format!("[nbd]\n{bytes} = 100"), &few);
}

#[test]
fn virtual_machines_alone_may_be_served() {
    let only = "[vhost_user]\nsocket = \"vhost.sock\"";
    let text = SMALLEST.replace("[nbd]\n        socket = \"thermocline.sock\"", only);
    let config = Config::parse(&text).unwrap();
    assert_eq!(config.control_socket(), Some("vhost.sock.control".into()));
    let machines = "[vhost_user]\nsocket = \"a\"\nqueues = 0\n[nbd]";
    refuse("[nbd]", machines, "`vhost_user.queues` is 0");
}

#[test]
fn metrics_are_served_to_other_machines_on_request() {
    let text = SMALLEST.replace("127.0.0.1:9469\"", "0.0.0.0:9469\"\nremote = true");
    assert!(Config::parse(&text).unwrap().metrics.unwrap().remote);
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache.toml");
    std::fs::write(&path, SMALLEST).unwrap();
    let config = Volumes::read(&path).unwrap().shared().clone();
    assert_eq!(config.backing.path, Some(folder.path().join("disk.img")));
    assert_eq!(config.nbd.socket.unwrap(), folder.path().join("thermocline.sock"));
}

#[test]
fn a_server_s_socket_and_note_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache.toml");
    let nbd = "nbd = \"nbds+unix:///?socket=disk.sock&tls-certificates=pki\"\nnote = \"disk.note\"";
    std::fs::write(&path, SMALLEST.replace("path = \"disk.img\"", nbd)).unwrap();
    let Backing { nbd, note, .. } = Volumes::read(&path).unwrap().shared().backing.clone();
    assert_eq!(note, Some(folder.path().join("disk.note")));
    let socket = folder.path().join("disk.sock");
    let nbd = nbd.unwrap();
    assert_eq!(nbd.server, ServerAddress::Unix(socket));
    assert_eq!(nbd.tls.unwrap().certificates, folder.path().join("pki"));
}

#[test]
fn a_flash_is_rated_by_its_data_sheet_or_like_a_drive_of_the_lab() {
    let rated = |line: &str| {
        let size = "size = \"256MiB\"";
        let text = SMALLEST.replace(size, &format!("{size}\n{line}"));
        Config::parse(&text).unwrap().flash_rated_written_bytes().unwrap()
    };
    assert_eq!(rated(""), None);
    assert_eq!(rated("rated_writes = \"600TB\""), Some(600_000_000_000_000));
    // 3,000 erases of a drive of 1 TB.
    let drive = rated("drive = \"tlc-nvme\"").unwrap();
    assert!((2.9e15..3.1e15).contains(&(drive as f64)), "{drive}");
}

#[track_caller]
fn refuse(from: &str, to: &str, words: &str) {
    let text = SMALLEST.replace(from, to);
    assert_ne!(text, SMALLEST, "the replacement matches");
    let error = format!("{:#}", Config::parse(&text).unwrap_err());
    assert!(error.contains(words), "{error}");
}

#[test]
fn what_cannot_work_is_refused_with_its_place() {
    refuse("64MiB", "64 parsecs", "a number of bytes");
    refuse("64MiB", "1KiB", "`ram.size` is 1024 bytes");
    refuse("64MiB", "5x", "a number of bytes");
    refuse("name = \"hat\"", "name = \"cap\"", "did you mean `car`?");
    refuse("name = \"hat\"", "name = \"nothing-like-it\"", "hat");
    refuse("name = \"hat\"", "name = \"hat\"\nparameters = { zz = 1 }", "`policy.parameters`");
    refuse("socket = \"thermocline.sock\"", "", "[nbd] takes a `socket`");
    let path = "path = \"disk.img\"";
    refuse(path, "", "either a `path` or `nbd`");
    refuse(path, "path = \"disk.img\"\nnbd = \"nbd://a/\"", "either a `path` or `nbd`");
    refuse(path, "path = \"disk.img\"\nnote = \"n\"", "`backing.note` is for `nbd`");
    for timeout in ["0", "-1", "nan", "inf"] {
        let text = format!("path = \"disk.img\"\ntimeout = {timeout}");
        refuse(path, &text, "`backing.timeout` is");
    }
    refuse(path, "path = \"disk.img\"\ngrace = 1", "`backing.grace` is for `nbd`");
    refuse(path, "nbd = \"nbd://a/\"\ngrace = -1", "`backing.grace` is -1");
    refuse(path, "nbd = \"nbd:disk.sock\"", "nbd+unix:///EXPORT?socket=PATH");
    refuse(path, "nbd = \"nbds://a/\"", "TLS needs tls-certificates=FOLDER");
    refuse("size = \"256MiB\"", "size = \"256MiB\"\nspeed = 3", "speed");
    refuse("[metrics]", "[record]\npath = \"a\"\nsize = 0\n[metrics]", "[record]: `size`");
    for key in ["nbd.clients", "nbd.in_flight", "nbd.client_in_flight", "nbd.send_timeout"] {
        let name = key.trim_start_matches("nbd.");
        refuse("[nbd]", &format!("[nbd]\n{name} = 0"), &format!("`{key}` is 0"));
    }
    refuse("[nbd]", "[cleaning]\npages_in_flight = 0\n[nbd]", "`cleaning.pages_in_flight`");
    refuse("[nbd]", "[cleaning]\npages_per_second = 0\n[nbd]", "`cleaning.pages_per_second`");
    refuse("127.0.0.1:9469", "localhost", "\"localhost\", expected an address with a port");
    refuse("127.0.0.1:9469", "0.0.0.0:9469", "`metrics.remote = true` allows that");
    refuse("[nbd]", "[nbd]\nlisten = \"10809\"", "\"10809\", expected an address");
    refuse("[metrics]", "[record]\n[metrics]", "missing field `path`");
}

#[test]
fn a_door_that_anybody_may_use_needs_leave() {
    let key = "`nbd.allow_unauthenticated = true`";
    let open = "[nbd]\nlisten = \"0.0.0.0:10809\"\nremote = true";
    refuse("[nbd]", open, key);
    let tls = "[nbd.tls]\ncertificate=\"a\"\nkey=\"b\"\n[metrics]";
    let local = "[nbd]\nlisten = \"127.0.0.1:10809\"";
    let anybody = SMALLEST.replace("[nbd]", local).replace("[metrics]", tls);
    let error = Config::parse(&anybody).unwrap_err().to_string();
    assert!(error.contains(key) && error.contains("client_roots"), "{error}");
    // With leave, or with certificates of clients, both are taken.
    let allow = |text: &str| text.replace("[nbd]", "[nbd]\nallow_unauthenticated = true");
    for text in [
        allow(&anybody),
        allow(&SMALLEST.replace("[nbd]", open)),
        anybody.replace("[nbd.tls]", "[nbd.tls]\nclient_roots = \"c\""),
        SMALLEST.replace("[nbd]", local),
    ] {
        assert!(Config::parse(&text).is_ok(), "{text}");
    }
    refuse("[metrics]", "[nbd.tls]\ncertificate=\"a\"\nkey=\"b\"\n[metrics]", "nbd.listen");
}

#[test]
fn a_socket_and_a_flash_that_cannot_work_are_refused_with_their_place() {
    refuse("[nbd]", "[nbd]\nsocket_mode = \"0888\"", "permissions in octal");
    refuse("[nbd]", "[nbd]\nsocket_mode = \"01777\"", "permissions in octal");
    refuse("[nbd]", "[nbd]\nsocket_owner = -1", "a name, as in");
    for key in ["socket_mode", "socket_owner", "socket_group"] {
        let place = format!("listen = \"127.0.0.1:0\"\n{key} = \"0660\"");
        refuse("socket = \"thermocline.sock\"", &place, &format!("`nbd.{key}`"));
    }
    let size = "size = \"256MiB\"";
    refuse(size, &format!("{size}\nrated_writes = 0"), "`flash.rated_writes` is 0");
    refuse(size, &format!("{size}\ndrive = \"tlc\""), "tlc-nvme");
    let both = format!("{size}\ndrive = \"tlc-nvme\"\nrated_writes = \"600TB\"");
    refuse(size, &both, "give one");
    refuse(
        "size = \"256MiB\"",
        "size = \"256MiB\"\nwrite_budget_gib_per_day = 0.0",
        "must be above 0",
    );
    refuse(
        "[flash]\n        path = \"flash.img\"\n        size = \"256MiB\"",
        "",
        "[flash] section",
    );
}

/// Return two volumes with shares of 1 and 3 GiB, and more lines for [flash] and for the second volume's
/// share.
fn volumes(flash: &str, second: &str) -> Result<Volumes> {
    let volume = |name: &str, gib: u32, more: &str| {
        format!(
            r#"
            [[volume]]
            name = "{name}"
            [volume.backing]
            path = "{name}.img"
            [volume.flash]
            size = "{gib}GiB"
            {more}
            [volume.ram]
            size = "64MiB"
            [volume.policy]
            name = "hat"
            "#
        )
    };
    let shared = format!(
        r#"
        [flash]
        path = "flash.img"
        size = "8GiB"
        {flash}
        [ram]
        size = "1GiB"
        [nbd]
        socket = "thermocline.sock"
        "#
    );
    Volumes::parse(&(shared + &volume("one", 1, "") + &volume("two", 3, second)))
}

#[test]
fn endurance_is_shared_out_like_the_flash() {
    let key = "write_budget_gib_per_day";
    let budgets = |volumes: &Volumes| -> Vec<Option<f64>> {
        let flash = volumes.each().iter().map(|config| config.flash.as_ref().unwrap());
        flash.map(|flash| flash.write_budget_gib_per_day).collect()
    };
    let found = volumes(&format!("rated_writes = \"400TB\"\n{key} = 100.0"), "").unwrap();
    assert_eq!(budgets(&found), [Some(25.0), Some(75.0)]);
    let rated = found.each().iter().map(|config| config.flash_rated_written_bytes().unwrap());
    assert_eq!(rated.collect::<Vec<_>>(), [Some(100_000_000_000_000), Some(300_000_000_000_000)]);
    let found = volumes("", &format!("{key} = 7.0")).unwrap();
    assert_eq!(budgets(&found), [None, Some(7.0)]);
    let both = volumes(&format!("{key} = 1.0"), &format!("{key} = 7.0")).unwrap_err();
    let both = format!("{both:#}");
    assert!(both.contains("[[volume]] `two`") && both.contains("keep one of them"), "{both}");
    let rated = volumes("rated_writes = 0", "").unwrap_err().to_string();
    assert!(rated.contains("`flash.rated_writes` is 0"), "{rated}");
}

#[test]
fn shares_of_the_flash_that_move_have_their_part_of_the_endurance() {
    let parse = |flash: &str| {
        let text = r#"
            [flash]
            path = "flash.img"
            size = "16GiB"
            FLASH
            [ram]
            size = "1GiB"
            [nbd]
            socket = "thermocline.sock"
            [[volume]]
            name = "fixed"
            backing = { path = "a.img" }
            flash = { size = "8GiB" }
            ram = { size = "64MiB" }
            policy = { name = "hat" }
            [[volume]]
            name = "one"
            backing = { path = "b.img" }
            flash = { size = "auto", floor = "2GiB", ceiling = "7GiB" }
            ram = { size = "auto" }
            policy = { name = "hat" }
            [[volume]]
            name = "two"
            backing = { path = "c.img" }
            flash = { size = "auto" }
            ram = { size = "64MiB" }
            policy = { name = "hat" }
        "#;
        Volumes::parse(&text.replace("FLASH", flash))
    };
    let mut found = parse("rated_writes = \"160TB\"\nwrite_budget_gib_per_day = 16.0").unwrap();
    let gib = |volumes: &Volumes| -> Vec<[u64; 3]> {
        let each = volumes.each().iter().map(|config| {
            let flash = config.flash.as_ref().unwrap();
            let tenths = flash.write_budget_gib_per_day.unwrap() * 10.0;
            let rated = config.flash_rated_written_bytes().unwrap().unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let tenths = tenths.round() as u64;
            [flash.size.0 >> 29, tenths, rated / 1_000_000_000_000]
        });
        each.collect()
    };
    assert_eq!(gib(&found), [[16, 80, 80], [8, 40, 40], [8, 40, 40]]);
    let (shares, total) = found.moving_shares(Resource::Flash).unwrap().unwrap();
    assert_eq!((total.0 >> 30, shares.pages()), (8, vec![1 << 20; 2]));
    let limits = shares.sizes_pages(0);
    assert_eq!([limits[0], limits[limits.len() - 1]], [2 << 18, 7 << 18]);
    // A start finds other shares.
    let held = |name: &str| if name == "one" { 9 << 18 } else { 0 };
    found.begin_shares(Resource::Flash, &held).unwrap();
    assert_eq!(gib(&found), [[16, 80, 80], [14, 70, 70], [2, 10, 10]]);
    let (shares, _) = found.moving_shares(Resource::Flash).unwrap().unwrap();
    assert_eq!(shares.pages(), [7 << 18, 1 << 18]);
}

#[test]
fn a_volume_is_configured_as_if_it_were_alone() {
    let found = volumes("", "").unwrap();
    assert_eq!(
        found.each().iter().map(|config| &*config.nbd.export).collect::<Vec<_>>(),
        ["one", "two"]
    );
    let sizes: Vec<_> = found.each().iter().map(|config| config.tier_pages().unwrap()).collect();
    assert_eq!(sizes, [[16_384, 262_144], [16_384, 786_432]]);
    assert_eq!(found.of("two").unwrap().backing.path, Some("two.img".into()));
}
