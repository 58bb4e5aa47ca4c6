//! nbdinfo, nbdcopy, qemu-img, qemu-io and fio, in front of RAM, flash and disk.

use std::sync::Mutex;

use super::{Cache, Engine, json, run, thermocline};

#[test]
fn nbdinfo_describes_the_export_and_its_tiers() {
    let mut cache = Cache::new(8);
    cache.set("nbd.listen", "127.0.0.1:0").set("nbd.export", "fast");
    let engine = cache.start();
    engine.client_of("fast").write(64 << 10, &[1; 8192]).unwrap();
    let uri = format!("nbd+unix:///fast?socket={}", engine.socket().display());
    let Some(list) = run("nbdinfo", "libnbd-bin", &["--list", &uri]) else { return };
    for line in [
        "export=\"fast\":",
        "export-size: 8388608",
        "description: cached by hat",
        "thermocline:tier",
        "can_multi_conn: true",
        "can_cache: true",
        "can_fua: true",
        "block_size_preferred: 4096",
    ] {
        assert!(list.contains(line), "{line} is not in\n{list}");
    }
    let map = run("nbdinfo", "libnbd-bin", &["--map=thermocline:tier", &uri]).unwrap();
    let rows: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["0", "65536", "0"], ["65536", "8192", "5"], ["73728", "8314880", "0"]]);
}

#[test]
fn an_image_goes_in_and_comes_out() {
    let cache = Cache::new(16);
    let image: Vec<u8> = (0..16_u64 << 20)
        .map(|place| if place % (1 << 20) < (1 << 19) { 0 } else { (place >> 3).to_le_bytes()[0] })
        .collect();
    std::fs::write(cache.path("image"), &image).unwrap();
    let [image_file, copy, other] = ["image", "copy", "other"].map(|name| cache.file(name));
    let engine = cache.start();
    if run("nbdcopy", "libnbd-bin", &["--connections=4", "--flush", &image_file, &engine.uri()])
        .is_some()
    {
        run("nbdcopy", "libnbd-bin", &["--connections=4", &engine.uri(), &copy]);
        assert!(cache.bytes("copy") == image, "nbdcopy");
        run("qemu-img", "qemu-utils", &["compare", "-f", "raw", &image_file, &engine.uri()]);
    }
    engine.stop();
    let engine = cache.start();
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", &image_file, &engine.uri()];
    if run("qemu-img", "qemu-utils", &convert).is_some() {
        run(
            "qemu-img",
            "qemu-utils",
            &["convert", "-f", "raw", "-O", "raw", &engine.uri(), &other],
        );
        assert!(cache.bytes("other") == image, "qemu-img");
    }
}

#[test]
fn qemu_reads_back_what_it_writes() {
    let mut cache = Cache::new(16);
    for mode in ["back", "through", "around"] {
        cache.set("write_mode", mode);
        let engine = cache.start();
        let script = [
            "write -P 7 1M 5M",
            "read -P 7 1M 5M",
            "write -f -P 8 3 1",
            "read -P 8 3 1",
            "flush",
            "discard 2M 1M",
            "read -P 0 2M 1M",
            "write -z 4M 64k",
            "write -z -u 5M 64k",
            "read -P 0 4M 64k",
            "read -P 7 4160k 64k",
        ];
        let said = qemu_io(&engine, &script);
        // Its exit status does not say so.
        let Some(said) = said else { return };
        assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
        engine.stop();
    }
    cache.set("write_mode", "read-only");
    let engine = cache.start();
    let (script, uri) = ("read -P 7 4160k 64k", engine.uri());
    let said = run("qemu-io", "qemu-utils", &["-r", "-f", "raw", "-c", script, &uri]).unwrap();
    assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
    assert!(engine.client().write(0, &[1; 512]).is_err(), "nothing is written");
}

fn qemu_io(engine: &Engine, script: &[&str]) -> Option<String> {
    let uri = engine.uri();
    let mut words = vec!["-f", "raw"];
    words.extend(script.iter().flat_map(|line| ["-c", *line]));
    words.push(&uri);
    run("qemu-io", "qemu-utils", &words)
}

/// Random reads and writes of random sizes at random places, each verified, and all at the end.
fn fio(cache: &Cache, engine: &Engine, more: &[&str]) -> bool {
    let uri = format!("--uri={}", engine.uri());
    let state = format!("--aux-path={}", cache.file(""));
    let words = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        &state,
        "--rw=randrw",
        "--bsrange=512-64k",
        "--bs_unaligned=1",
        "--size=16M",
        "--io_size=16M",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--fsync=32",
    ];
    run("fio", "fio", &[&words[..], more].concat()).is_some()
}

/// Return the names of all policies that can be served with these tiers.
pub(crate) fn policies(cache: &mut Cache) -> Vec<String> {
    let listed = json(&["policies", "--json"]);
    let names = listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    let served: Vec<String> = names
        .filter(|&name| {
            cache.set("policy.name", name).write_config();
            thermocline(&["serve", "--check", &cache.file("cache.toml")]).status.success()
        })
        .map(str::to_owned)
        .collect();
    assert!(served.len() >= 20, "{served:?}");
    served
}

#[test]
fn fio_verifies_every_policy() {
    let names = Mutex::new(policies(&mut Cache::new(1)).into_iter());
    let work = || {
        loop {
            let Some(name) = names.lock().unwrap().next() else { return };
            let mut cache = Cache::new(16);
            let engine = cache.set("policy.name", name.as_str()).start();
            if !fio(&cache, &engine, &[]) {
                return;
            }
            let status = engine.status();
            assert_eq!(status["policy"], name.as_str());
            for figure in ["lost_pages", "checksum_errors"] {
                assert_eq!(status[figure], 0, "{name}: {figure}");
            }
            engine.stop();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
}

#[test]
fn fio_verifies_every_way_of_writing_and_driving() {
    for (key, value) in [
        ("write_mode", "through".into()),
        ("write_mode", "around".into()),
        ("io.engine", "threads".into()),
        ("io.direct", toml::Value::from(false)),
        ("page_size", "64KiB".into()),
        ("limits.sequential_bypass", "64KiB".into()),
        ("policy.write_miss", "allocate".into()),
    ] {
        let mut cache = Cache::new(16);
        let engine = cache.set(key, value).start();
        if !fio(&cache, &engine, &["--numjobs=2", "--offset_increment=8M", "--size=8M"]) {
            return;
        }
        engine.stop();
    }
}
