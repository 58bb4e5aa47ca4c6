//! The engine and the lab's loop never disagree about placement: same accesses, same actions; and the
//! bytes are right whatever the policy does with them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

mod policies;

use std::sync::{Arc, Mutex};

use thermocline_core::random::SplitMix64;
use thermocline_core::registry::PolicyEntry;
use thermocline_core::{
    Access, Action, Actions, Geometry, Ledger, Nanos, Op, Setup, Tier, WriteMiss,
};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Device, Engine, Event, Options, Request, RequestKind, Shard};

use self::policies::{entries, policy};

const PAGE: usize = 4096;

/// Hot pages, runs, and a tail.
fn accesses(pages: u32, count: u32, seed: u64) -> Vec<Access> {
    let mut random = SplitMix64::new(seed);
    let mut below = |bound: u32| (random.bits() % u64::from(bound)) as u32;
    let mut accesses = vec![];
    while accesses.len() < count as usize {
        let first = match below(4) {
            0 => below(pages),
            1 => below(pages / 4),
            _ => below(pages / 16),
        };
        let run = if below(8) == 0 { 4 } else { 1 };
        let is_write = below(3) == 0;
        for page in first..(first + run).min(pages) {
            accesses.push(if is_write { Access::write(page) } else { Access::read(page) });
        }
    }
    accesses
}

/// Return the actions of the policy if it is driven alone.
fn expected(options: &Options, pages: u32, accesses: &[Access]) -> Vec<Action> {
    let policy = &options.policy;
    let setup = Setup {
        costs: policy.costs.clone(),
        write_miss: policy.write_miss,
        ..Setup::new(Geometry::linear(pages), vec![options.ram_pages, options.flash_pages])
    };
    let mut alone = policy.entry.build(&setup, &policy.values).unwrap();
    let mut ledger = Ledger::new(pages, &setup.capacity_pages);
    let mut log = vec![];
    let mut actions = Actions::new();
    for (now, &access) in (1..).map(|step| Nanos(step << 30)).zip(accesses) {
        if policy.entry.capabilities.needs_clock {
            actions.clear();
            alone.background(now, &mut actions);
            ledger.between_accesses(&actions).unwrap();
            log.extend_from_slice(actions.as_slice());
        }
        actions.clear();
        alone.access(access, &mut actions);
        ledger.access(access, &actions).unwrap();
        for action in actions.as_slice() {
            // The engine copies the newest bytes; a policy that wanted older ones would be misled.
            if let Action::Copy { page, target, .. } = *action {
                assert!(ledger.holds(target, page) || target != Tier::DISK);
            }
        }
        log.extend_from_slice(actions.as_slice());
    }
    log
}

fn check(entry: &'static PolicyEntry, ram_pages: u32, flash_pages: u32, write_miss: WriteMiss) {
    let pages = 256_u32;
    let policy = policy(entry, write_miss);
    let mut options = Options::new(pages.into(), ram_pages, flash_pages, policy);
    options.request_bytes_max = 1 << 16;
    let accesses = accesses(pages, 1500, u64::from(ram_pages) << 8 | u64::from(flash_pages));
    let expected = expected(&options, pages, &accesses);
    let mut shard = Shard::new(options).unwrap();
    let log = Arc::new(Mutex::new(vec![]));
    let sink = Arc::clone(&log);
    shard.observe(Box::new(move |event| {
        if let Event::Access { actions, .. } | Event::Background { actions, .. } = event {
            sink.lock().unwrap().extend_from_slice(actions);
        }
    }));
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), pages as usize * PAGE);
    let mut engine = Engine::new(shard, driver);
    let mut model = vec![0_u8; pages as usize * PAGE];
    for (step, (now, &access)) in (1..).map(|step| Nanos(step << 30)).zip(&accesses).enumerate() {
        engine.shard_mut().tick(now);
        let offset = access.page.index() * PAGE;
        let tag = step as u64;
        if access.op == Op::Write {
            let fill = (step % 251) as u8 + 1;
            // Now and then only a part of the page.
            let range =
                if step % 5 == 0 { offset + 512..offset + 1024 } else { offset..offset + PAGE };
            model[range.clone()].fill(fill);
            let request = Request::write(tag, range.start as u64, range.len() as u64);
            engine.submit(request, &model[range]).unwrap();
        } else {
            engine.submit(Request::read(tag, offset as u64, PAGE as u64), &[]).unwrap();
        }
        if step % 7 != 0 {
            engine.wait();
        }
        while let Some(reply) = engine.next_reply() {
            assert_eq!(reply.result, Ok(()));
            if reply.kind == RequestKind::Read && reply.tag == tag {
                let read: Vec<u8> = engine.pieces(&reply).flatten().copied().collect();
                assert!(read == model[offset..offset + PAGE], "{}: step {step}", entry.name);
            }
            engine.release(reply);
        }
    }
    assert!(*log.lock().unwrap() == expected, "{}: the logs differ", entry.name);
    assert!(engine.shard().counters().balance(), "{}", entry.name);
    engine.submit(Request::flush(1 << 40), &[]).unwrap();
    engine.wait_until_idle();
    while let Some(reply) = engine.next_reply() {
        engine.release(reply);
    }
    for page in 0..pages as usize {
        let offset = page * PAGE;
        engine.submit(Request::read(0, offset as u64, PAGE as u64), &[]).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        let read = engine.pieces(&reply).next().unwrap().to_vec();
        assert!(read == model[offset..offset + PAGE], "{}: page {page} at last", entry.name);
        engine.release(reply);
    }
    assert_eq!(engine.driver().bytes(Device::Backing).len(), model.len());
    engine.shard().assert_invariants();
}

#[test]
fn every_policy_does_in_the_engine_what_it_does_in_the_lab() {
    for entry in entries() {
        for write_miss in [WriteMiss::Fetch, WriteMiss::Allocate] {
            for [ram_pages, flash_pages] in [[16, 64], [1, 8], [40, 1], [8, 0]] {
                check(entry, ram_pages, flash_pages, write_miss);
            }
        }
    }
}
