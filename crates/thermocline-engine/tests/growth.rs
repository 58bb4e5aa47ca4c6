//! A backing store or a flash that grows while the engine serves. `tests/crash` cuts the power meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "a page's byte is the end of its number")]

use thermocline_core::{Nanos, Tier, WriteMiss};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Engine, Layout, Options, OptionsError, PolicyOptions, Request, Shard};

mod policies;

const PAGE: u64 = 4096;

fn engine(policy: &str, pages: u64, bytes: usize) -> Engine<MemoryDriver> {
    let policy = PolicyOptions::named(policy).unwrap();
    let shard = Shard::new(Options::new(pages, 16, 64, policy)).unwrap();
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), bytes);
    Engine::new(shard, driver)
}

/// Write a page, or read it and check that it holds `byte`. Returns where it was found.
fn access(engine: &mut Engine<MemoryDriver>, page: u64, byte: u8, writes: bool) -> Option<Tier> {
    let payload = [byte; PAGE as usize];
    if writes {
        engine.submit(Request::write(page, page * PAGE, PAGE), &payload).unwrap();
    } else {
        engine.submit(Request::read(page, page * PAGE, PAGE), &[]).unwrap();
    }
    engine.wait_until_idle();
    let reply = engine.next_reply().unwrap();
    assert_eq!(reply.result, Ok(()));
    let bytes: Vec<u8> = engine.pieces(&reply).flatten().copied().collect();
    assert!(writes || bytes == payload, "page {page}");
    let found = reply.found;
    engine.release(reply);
    found
}

#[test]
fn new_pages_are_served_and_known_ones_stay() {
    for policy in ["lru", "hat", "face-gsc", "tac", "hca", "dm-cache", "two-tier"] {
        let mut engine = engine(policy, 100, 300 * PAGE as usize);
        for page in 0..60 {
            access(&mut engine, page, page as u8, true);
        }
        let tiers = |shard: &Shard| (0..100).map(|page| shard.tier_of(page)).collect::<Vec<_>>();
        let before = tiers(engine.shard());
        let beyond = Request::read(1, 100 * PAGE, PAGE);
        assert!(engine.submit(beyond, &[]).is_err(), "{policy}: there is no such page yet");
        engine.shard_mut().grow_backing(300).unwrap();
        engine.wait_until_idle();
        let held = |tiers: &[Tier]| tiers.iter().filter(|&&tier| tier != Tier::DISK).count();
        let after = tiers(engine.shard());
        assert!(held(&after) * 10 >= held(&before) * 9, "{policy}: {before:?} {after:?}");
        assert_eq!(access(&mut engine, 299, 0, false), Some(Tier::DISK));
        for page in 100..300 {
            access(&mut engine, page, page as u8, true);
        }
        for page in (0..60).chain(100..300) {
            access(&mut engine, page, page as u8, false);
        }
        engine.shard().assert_invariants();
    }
}

/// Return the number of pages that are on flash.
fn on_flash(shard: &Shard) -> usize {
    (0..300).filter(|&page| shard.tier_of(page) == Tier::FLASH).count()
}

#[test]
fn a_larger_flash_keeps_its_pages_and_takes_more() {
    for entry in policies::entries() {
        let name = &*entry.name;
        let options = Options::new(300, 16, 64, policies::policy(entry, WriteMiss::Fetch));
        let first = Layout::new(options.slots(), 4096);
        let shard = Shard::new(options).unwrap();
        // Two annexes, of which the second one lies before the first.
        let second = first.with_annex(first.flash_bytes() + (4 << 20), first.slots + 100);
        let third = second.with_annex(first.flash_bytes() + 4096, second.slots + 300);
        let bytes = usize::try_from(first.flash_bytes()).unwrap() + (8 << 20);
        let driver = MemoryDriver::new(shard.frames(), bytes, 300 * PAGE as usize);
        let mut engine = Engine::new(shard, driver);
        let mut time = 0;
        for round in 0..3 {
            for page in 0..300 {
                access(&mut engine, page, (page as u8).wrapping_add(round), true);
                access(&mut engine, page / 8, (page / 8) as u8 + round, false);
            }
            let before = on_flash(engine.shard());
            let pages = [130, 300, 20][usize::from(round)];
            let shard = engine.shard_mut();
            assert!(pages == 20 || shard.slots_for(pages).unwrap().is_some(), "{name}");
            match round {
                0 => shard.grow_flash(pages, &second).unwrap(),
                1 => shard.grow_flash(pages, &third).unwrap(),
                _ => shard.set_flash_pages(pages).unwrap(),
            }
            // Dirty pages that the policy gives up stay until the disk durably has them.
            for tag in 1..20 {
                time += 1_000_000_000;
                engine.shard_mut().tick(Nanos(time));
                engine.wait_until_idle();
                engine.submit(Request::flush(tag), &[]).unwrap();
                engine.wait_until_idle();
                let reply = engine.next_reply().unwrap();
                engine.release(reply);
            }
            let after = on_flash(engine.shard());
            // Others begin with less, as after a change of policy.
            let keeps = ["hat", "face", "face-gsc", "lc", "tac", "hca", "two-tier"].contains(&name);
            if pages > 20 {
                assert!(!keeps || after * 10 >= before * 9, "{name}: {before} pages, then {after}");
            } else {
                assert!(after <= 20, "{name}: {after} pages");
            }
            engine.shard().assert_invariants();
            for page in 0..300 {
                access(&mut engine, page, (page as u8).wrapping_add(round), false);
            }
        }
        engine.shard().assert_invariants();
    }
}

#[test]
fn growth_that_needs_a_restart_is_refused() {
    let refused = |former_pages: u64, pages: u64| {
        let mut engine = engine("lru", former_pages, 0);
        let error = engine.shard_mut().grow_backing(pages).unwrap_err();
        assert_eq!(engine.shard().options().backing_pages, former_pages);
        error
    };
    assert_eq!(refused(100, 99), OptionsError::Growth { former_pages: 100, pages: 99 });
    // The formats of the flash have longer page numbers beyond.
    for pages in [u64::from(u32::MAX) + 1, 1 << 32, (1 << 32) + 1] {
        assert_eq!(refused(100, pages), OptionsError::Growth { former_pages: 100, pages });
    }
    let (former_pages, pages) = (1 << 32, (1 << 32) + 1);
    assert_eq!(refused(former_pages, pages), OptionsError::Growth { former_pages, pages });
    assert!(matches!(refused(1 << 33, 1 << 60), OptionsError::TooManyPages { .. }));
    let mut engine = engine("lru", 1 << 33, 0);
    engine.shard_mut().grow_backing(1 << 34).unwrap();
}
