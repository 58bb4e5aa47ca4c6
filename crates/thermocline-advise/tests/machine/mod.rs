//! Recorded machines of `testdata`.

use std::path::Path;

use tempfile::TempDir;
use thermocline_advise::installed::RecordedMachine;

/// Read a recording.
pub(crate) fn recorded(name: &str) -> RecordedMachine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    RecordedMachine::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Make a folder that has the recorded files.
pub(crate) fn root(machine: &RecordedMachine) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    machine.write_files(folder.path()).unwrap();
    folder
}
