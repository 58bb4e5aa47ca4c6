//! An engine that serves reads before the epoch of its flash has begun.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

use thermocline_core::Nanos;
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{
    Device, Engine, Flash, Layout, Options, PolicyOptions, Request, RequestError, RequestKind,
    Shard, Storage, SubmitError, Uuid,
};

const PAGE: u64 = 4096;
const PAGES: u64 = 256;
/// Pages that the killed engine wrote and flushed; only the flash has them.
const DIRTY_PAGES: u64 = 64;

/// A flash at rest.
struct Image(Vec<u8>);

impl Storage for Image {
    fn size_bytes(&mut self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        bytes.copy_from_slice(&self.0[offset_bytes as usize..][..bytes.len()]);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0[offset_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Both devices, while no engine runs.
struct Devices {
    flash: Image,
    backing: Vec<u8>,
}

fn options(policy: &str) -> Options {
    let mut options = Options::new(PAGES, 16, 128, PolicyOptions::named(policy).unwrap());
    options.cleaning.dirty_ratio_target = 1.0;
    options
}

/// Return the byte that each page is full of.
fn content(page: u64) -> u8 {
    if page < DIRTY_PAGES { page as u8 + 1 } else { 0 }
}

impl Devices {
    /// Return the state that a killed engine leaves after a flush.
    fn of_killed(options: &Options) -> Self {
        let layout = Layout::new(options.slots(), options.page_bytes);
        let mut flash = Image(vec![0; layout.flash_bytes() as usize]);
        let cache = Uuid::from_u128(1);
        let found = Flash::initialise(&mut flash, cache, layout, options.size_bytes()).unwrap();
        let devices = Self { flash, backing: vec![0; (PAGES * PAGE) as usize] };
        let mut engine = devices.engine(Shard::open(options.clone(), &found).unwrap());
        for page in 0..DIRTY_PAGES {
            let bytes = vec![content(page); PAGE as usize];
            ask(&mut engine, Request::write(0, page * PAGE, PAGE), &bytes).unwrap().unwrap();
        }
        ask(&mut engine, Request::flush(0), &[]).unwrap().unwrap();
        Self::of(&mut engine)
    }

    fn engine(&self, shard: Shard) -> Engine<MemoryDriver> {
        let mut driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), self.backing.len());
        driver.bytes(Device::Flash).copy_from_slice(&self.flash.0);
        driver.bytes(Device::Backing).copy_from_slice(&self.backing);
        Engine::new(shard, driver)
    }

    fn of(engine: &mut Engine<MemoryDriver>) -> Self {
        let flash = Image(engine.driver().bytes(Device::Flash).to_vec());
        Self { flash, backing: engine.driver().bytes(Device::Backing).to_vec() }
    }

    /// Return `true` if the engine has written nothing to either.
    fn are_those_of(&self, engine: &mut Engine<MemoryDriver>) -> bool {
        let now = Self::of(engine);
        now.flash.0 == self.flash.0 && now.backing == self.backing
    }
}

/// Submits a request and waits for its answer, and checks what a read of a page gives.
fn ask(
    engine: &mut Engine<MemoryDriver>,
    request: Request,
    payload: &[u8],
) -> Result<Result<(), RequestError>, SubmitError> {
    engine.submit(request, payload)?;
    loop {
        if let Some(reply) = engine.next_reply() {
            if request.kind == RequestKind::Read {
                let expected = content(request.offset_bytes / PAGE);
                let is_right = engine.pieces(&reply).flatten().all(|&byte| byte == expected);
                assert!(is_right, "{request:?}");
            }
            let result = reply.result;
            engine.release(reply);
            engine.poll();
            return Ok(result);
        }
        assert!(engine.poll(), "nothing happens any more: {:?}", engine.shard());
    }
}

#[test]
fn only_reads_are_served_before_the_epoch_begins() {
    for policy in ["lru", "hat"] {
        let options = options(policy);
        let mut devices = Devices::of_killed(&options);
        let mut flash = Flash::read(&mut devices.flash).unwrap();
        Flash::make_durable(&mut devices.flash).unwrap();
        let former_epoch = flash.superblock().epoch;
        let mut engine = devices.engine(Shard::open_early(options.clone(), &flash).unwrap());
        let bytes = vec![0xAA; PAGE as usize];
        let last = PAGES - 1;
        // More pages than RAM holds: what the policy moves to flash waits, with its frames.
        let mut refused = 0;
        for page in 0..PAGES {
            engine.shard_mut().tick(Nanos(page * 100_000_000));
            match ask(&mut engine, Request::read(0, page * PAGE, PAGE), &[]) {
                Ok(result) => result.unwrap(),
                Err(error) => {
                    assert_eq!(error, SubmitError::Full, "{policy}");
                    refused += 1;
                }
            }
            let zeroes =
                Request { kind: RequestKind::WriteZeroes, ..Request::read(0, page * PAGE, PAGE) };
            let trim = Request { kind: RequestKind::Trim, ..zeroes };
            let write = Request::write(0, page * PAGE, PAGE);
            for (request, payload) in
                [(write, &bytes[..]), (zeroes, &[]), (trim, &[]), (Request::flush(0), &[])]
            {
                let refusal = engine.submit(request, payload).unwrap_err();
                assert_eq!(refusal, SubmitError::Full, "{policy}: {request:?}");
            }
        }
        assert!(refused < PAGES - 16, "{policy}: RAM holds what is read");
        assert!(devices.are_those_of(&mut engine), "{policy}: something was written");

        flash.take_over(&mut devices.flash).unwrap();
        engine.driver().bytes(Device::Flash).copy_from_slice(&devices.flash.0);
        engine.shard_mut().epoch_has_begun(&flash);
        engine.wait_until_idle();
        for page in 0..PAGES {
            ask(&mut engine, Request::read(0, page * PAGE, PAGE), &[]).unwrap().unwrap();
        }
        ask(&mut engine, Request::write(0, last * PAGE, PAGE), &bytes).unwrap().unwrap();
        ask(&mut engine, Request::flush(0), &[]).unwrap().unwrap();
        engine.shard().assert_invariants();

        // After a kill, pages flushed in the new epoch are there, and those from before it.
        let mut devices = Devices::of(&mut engine);
        let flash = Flash::recover(&mut devices.flash).unwrap();
        assert_eq!(flash.superblock().epoch, former_epoch + 2, "{policy}");
        let mut engine = devices.engine(Shard::open(options, &flash).unwrap());
        for page in 0..last {
            ask(&mut engine, Request::read(0, page * PAGE, PAGE), &[]).unwrap().unwrap();
        }
        engine.submit(Request::read(0, last * PAGE, PAGE), &[]).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        assert!(engine.pieces(&reply).flatten().eq(&bytes), "{policy}");
        engine.release(reply);
    }
}
