//! Servers that are killed while clients write: what was durable is there, and no more is dirty than
//! was written.

use std::io;
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;
use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::{Command, command_flag};

use super::model::{Model, PAGE, SECTOR};
use super::{Cache, Client, Engine, json, text};

/// Clients, and pages that each of them writes; after their ranges comes one that is only read.
pub(super) const CLIENTS: usize = 3;
pub(super) const PAGES: usize = 700;

/// Return a number below `limit`.
fn below(random: &mut SplitMix64, limit: usize) -> usize {
    usize::try_from(random.bits() % limit as u64).unwrap()
}

/// Send one request; an error means that the server is gone.
pub(super) fn step(
    client: &mut Client,
    model: &mut Model,
    random: &mut SplitMix64,
) -> io::Result<()> {
    let count = [1, 3, 8, 8, 64][below(random, 5)];
    let first = below(random, model.sectors() - count + 1);
    // Half of the longer requests are whole pages.
    let first = if count >= 8 && below(random, 2) == 0 { first / 8 * 8 } else { first };
    let (command, flags) = match below(random, 20) {
        0..=10 => (Command::Write, 0),
        11 => (Command::Write, command_flag::FUA),
        12 => (Command::WriteZeroes, 0),
        13 => (Command::Trim, 0),
        14 => (Command::Flush, 0),
        _ => (Command::Read, 0),
    };
    // Pages that nobody writes are read as well, so that the flash has clean pages.
    let is_clean = command == Command::Read && below(random, 2) == 0;
    let (offset_bytes, length_bytes) = if command == Command::Flush {
        (0, 0)
    } else if is_clean {
        (((CLIENTS * PAGES + below(random, PAGES)) * PAGE) as u64, PAGE)
    } else {
        (model.offset_bytes() + (first * SECTOR) as u64, count * SECTOR)
    };
    let is_zero = matches!(command, Command::WriteZeroes | Command::Trim);
    let mut payload = vec![];
    if is_zero || command == Command::Write {
        payload = model.write(first, count, is_zero);
    }
    if is_zero {
        payload.clear();
    }
    let length_bytes = u32::try_from(length_bytes).unwrap();
    if command == Command::Trim {
        // Each sector may be as before or zeroes now; so zeroes follow.
        let header = RequestHeader { cookie: 0, command, flags, offset_bytes, length_bytes };
        let header = client.send(header, &[])?;
        client.wait(header)?.unwrap();
    }
    let command = if command == Command::Trim { Command::WriteZeroes } else { command };
    let header = RequestHeader { cookie: 0, command, flags, offset_bytes, length_bytes };
    let header = client.send(header, &payload)?;
    let answer = client.wait(header)?;
    if command == Command::Flush && answer.is_err() && model.may_flushes_fail {
        return Ok(());
    }
    let answer =
        answer.unwrap_or_else(|error| panic!("{command:?} {flags} at {offset_bytes}: {error:?}"));
    if is_clean {
        assert!(answer.iter().all(|&byte| byte == 0));
    } else if command == Command::Read {
        assert!(answer == model.read(first, count), "sectors from {first}");
    } else if command == Command::Flush {
        model.flushed();
    } else if flags == command_flag::FUA {
        model.flushed_range(first, count);
    }
    Ok(())
}

/// Clients work, and the server is killed meanwhile.
pub(super) fn killed_under_load(engine: Engine, models: &mut [Model], random: &mut SplitMix64) {
    let time = Duration::from_millis(100 + random.bits() % 300);
    thread::scope(|scope| {
        for model in models.iter_mut() {
            let (mut client, mut random) = (engine.client(), SplitMix64::new(random.bits()));
            scope.spawn(move || while step(&mut client, model, &mut random).is_ok() {});
        }
        thread::sleep(time);
        engine.kill();
    });
}

/// Return all bytes of a model's range, as a client reads them.
pub(super) fn range(client: &mut Client, model: &Model) -> Vec<u8> {
    let mut bytes = vec![];
    while bytes.len() < model.sectors() * SECTOR {
        let offset_bytes = model.offset_bytes() + bytes.len() as u64;
        let length = (model.sectors() * SECTOR - bytes.len()).min(16 * PAGE);
        bytes.extend(client.read(offset_bytes, length).unwrap());
    }
    bytes
}

/// Return the bytes of a model's range in the backing store.
fn on_disk<'a>(disk: &'a [u8], model: &Model) -> &'a [u8] {
    let start = usize::try_from(model.offset_bytes()).unwrap();
    &disk[start..start + model.sectors() * SECTOR]
}

#[test]
fn what_was_durable_survives_kills_under_load() {
    let mut cache = Cache::new(11);
    let mut random = SplitMix64::new(5);
    let mut models: Vec<Model> =
        (0..CLIENTS).map(|client| Model::new(client * PAGES, PAGES)).collect();
    let rounds = [
        ("hat", "back"),
        ("lru-inclusive", "back"),
        ("face-gsc", "back"),
        ("hat", "through"),
        ("lru-exclusive", "back"),
        ("lru", "back"),
        ("hat", "around"),
        ("hca", "back"),
    ];
    let mut with_clean = 0;
    for (policy, mode) in rounds {
        let engine = cache.set("policy.name", policy).set("write_mode", mode).start();
        killed_under_load(engine, &mut models, &mut random);

        let inspected = json(&["cache", "inspect", &cache.file("flash.img"), "--json"]);
        let figure = |name: &str| usize::try_from(inspected[name].as_u64().unwrap()).unwrap();
        let disk = cache.bytes("disk.img");
        let engine = cache.start();
        let (mut newer, mut written) = (0, 0);
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            model.recover(&found);
            let pages = found.chunks(PAGE).zip(on_disk(&disk, model).chunks(PAGE));
            newer += pages.filter(|(found, disk)| found != disk).count();
            written += model.written.len();
        }
        let (dirty, held) = (figure("dirty_pages"), figure("held_pages"));
        assert!(
            newer <= dirty && dirty <= written,
            "{policy} {mode}: {newer} pages are newer than the disk's, {dirty} are dirty, \
             {written} were written"
        );
        with_clean += u32::from(dirty < held);
        // Content that was read after a crash stays, whatever happens then.
        engine.kill();
        let engine = cache.start();
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            assert!(found == model.read(0, model.sectors()), "{policy} {mode}");
        }
        engine.kill();
    }
    assert!(with_clean >= 4, "most policies keep clean pages, too");
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    text(&["cache", "drain", &flash, "--backing", &disk]);
    let disk = cache.bytes("disk.img");
    for model in &models {
        assert!(on_disk(&disk, model) == model.read(0, model.sectors()), "drained");
    }
}

#[test]
fn nothing_is_lost_by_an_orderly_end() {
    let cache = Cache::new(11);
    let mut random = SplitMix64::new(6);
    let mut model = Model::new(0, PAGES);
    for _ in 0..3 {
        let engine = cache.start();
        let mut client = engine.client();
        for _ in 0..400 {
            step(&mut client, &mut model, &mut random).unwrap();
        }
        engine.stop();
        let engine = cache.start();
        let found = range(&mut engine.client(), &model);
        assert!(found == model.read(0, model.sectors()), "acknowledged is enough");
        engine.stop();
    }
}
