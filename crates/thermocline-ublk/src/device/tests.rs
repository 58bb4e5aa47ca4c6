//! A driver with one device, in place of the kernel's.

use std::path::Path;

use super::*;

/// State of the driver.
#[derive(Debug, Default)]
struct Fake {
    info: Option<Info>,
    parameters: Vec<u8>,
    features: u64,
    done: Vec<Control>,
    /// Number of looks after which the driver notices that the server of a device is gone.
    looks_until_quiesced: u32,
    refused: Option<Control>,
}

#[derive(Clone, Debug, Default)]
struct FakeKernel(Arc<Mutex<Fake>>);

impl FakeKernel {
    fn with(info: Option<Info>, options: &Options) -> Self {
        let parameters = options.parameters().to_bytes().to_vec();
        let fake = Fake { info, parameters, features: u64::MAX, ..Fake::default() };
        Self(Arc::new(Mutex::new(fake)))
    }

    fn done(&self) -> Vec<Control> {
        let done = std::mem::take(&mut self.0.lock().unwrap().done);
        let looks = [Control::Info, Control::Features];
        done.into_iter().filter(|command| !looks.contains(command)).collect()
    }
}

impl Kernel for FakeKernel {
    fn command(
        &mut self,
        command: Control,
        _id: u32,
        buffer: &mut [u8],
        _word: u64,
    ) -> io::Result<()> {
        let mut fake = self.0.lock().unwrap();
        fake.done.push(command);
        if fake.refused == Some(command) {
            return Err(Errno::INVAL.into());
        }
        match command {
            Control::Features => buffer.copy_from_slice(&fake.features.to_ne_bytes()),
            Control::Info => {
                let looks_left = fake.looks_until_quiesced.saturating_sub(1);
                let is_noticed = fake.looks_until_quiesced == 1;
                fake.looks_until_quiesced = looks_left;
                let info = fake.info.as_mut().ok_or(Errno::NODEV)?;
                if is_noticed {
                    info.state = State::Quiesced;
                }
                buffer.copy_from_slice(&info.to_bytes());
            }
            Control::Add => {
                fake.info = Some(Info::from_bytes((&*buffer).try_into().unwrap()));
            }
            Control::Delete => fake.info = None,
            Control::SetParameters => fake.parameters = buffer.to_vec(),
            Control::Parameters => buffer.copy_from_slice(&fake.parameters),
            Control::Start | Control::Stop | Control::StartRecovery | Control::EndRecovery => {}
        }
        Ok(())
    }
}

fn options(folder: &Path) -> Options {
    Options {
        id: 3,
        depth: 8,
        size_bytes: 1 << 20,
        preferred_bytes: 4096,
        may_write: true,
        owner: 42,
        note: folder.join("note"),
        keeps_at_exit: false,
    }
}

fn prepare(kernel: &FakeKernel, options: &Options) -> Result<Ublk, UblkError> {
    Ublk::prepare_by(Box::new(kernel.clone()), options, 2).map(|(ublk, _)| ublk)
}

#[test]
fn a_device_is_added_and_deleted_if_it_never_begins() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let kernel = FakeKernel::with(None, &options);
    let ublk = prepare(&kernel, &options).unwrap();
    assert!(!ublk.was_there);
    assert_eq!(ublk.info.queues, 2);
    assert_eq!(kernel.done(), [Control::Add, Control::SetParameters]);
    drop(ublk);
    assert_eq!(kernel.done(), [Control::Delete]);
}

#[test]
fn a_device_that_takes_no_parameters_does_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let kernel = FakeKernel::with(None, &options);
    kernel.0.lock().unwrap().refused = Some(Control::SetParameters);
    let error = prepare(&kernel, &options).unwrap_err();
    assert!(error.to_string().contains("/dev/ublkb3"), "{error}");
    assert_eq!(kernel.0.lock().unwrap().info, None);
}

#[test]
fn a_device_of_a_killed_server_is_recovered_and_stays_if_this_one_never_begins() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let left = Info { state: State::Live, pid: 99, ..options.info(2) };
    let kernel = FakeKernel::with(Some(left), &options);
    kernel.0.lock().unwrap().looks_until_quiesced = 3;
    let ublk = prepare(&kernel, &options).unwrap();
    assert!(ublk.was_there);
    drop(ublk);
    assert_eq!(kernel.done(), [Control::Parameters]);
    let never_started = Info { state: State::Dead, ..left };
    let kernel = FakeKernel::with(Some(never_started), &options);
    prepare(&kernel, &options).unwrap();
    let done = kernel.done();
    assert_eq!(done[..2], [Control::Delete, Control::Add]);
}

#[test]
fn what_does_not_belong_to_this_server_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let left = Info { state: State::Quiesced, pid: 99, ..options.info(2) };
    let refused = |left: Info, wanted: &Options, text: &str| {
        let kernel = FakeKernel::with(Some(left), &options);
        let error = prepare(&kernel, wanted).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("/dev/ublkb3"), "{error}");
        let done = kernel.done();
        assert!(done.iter().all(|&command| command == Control::Parameters), "{done:?}");
    };
    refused(Info { owner: 1, ..left }, &options, "something else");
    let live = Info { owner: 1, state: State::Live, ..left };
    refused(live, &options, "served by process 99");
    refused(Info { depth: 16, ..left }, &options, "`queue_depth` = 16");
    refused(Info { queues: 3, ..left }, &options, "3 queues");
    let grown = Options { size_bytes: 2 << 20, ..options.clone() };
    refused(left, &grown, "1048576 bytes");
    refused(left, &Options { may_write: false, ..options.clone() }, "`write_mode`");
}

#[test]
fn what_cannot_work_is_an_error_that_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let kernel = FakeKernel::with(None, &options);
    kernel.0.lock().unwrap().features = 1 << 3;
    assert!(matches!(prepare(&kernel, &options), Err(UblkError::TooOld)));
    let small = Options { size_bytes: 511, ..options.clone() };
    assert!(matches!(prepare(&kernel, &small), Err(UblkError::TooSmall(511))));
    let kernel = FakeKernel::with(None, &options);
    let lost = Options { note: folder.path().join("no/such/folder"), ..options };
    let error = prepare(&kernel, &lost).unwrap_err();
    assert!(error.to_string().contains("no/such/folder"), "{error}");
    assert_eq!(kernel.0.lock().unwrap().info, None, "no device stays");
}
