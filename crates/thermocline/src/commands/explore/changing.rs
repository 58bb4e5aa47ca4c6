//! A value that threads change and that requests wait for.

use std::time::Duration;

use tokio::sync::watch;

/// Time that a request waits for a change.
const WAIT: Duration = Duration::from_secs(10);

/// A value with the number of its changes.
#[derive(Debug)]
pub(super) struct Changing<T>(watch::Sender<Versioned<T>>);

#[derive(Debug)]
struct Versioned<T> {
    version: u64,
    value: T,
}

impl<T> Changing<T> {
    /// Create a value in version 1.
    pub(super) fn new(value: T) -> Self {
        Self(watch::Sender::new(Versioned { version: 1, value }))
    }

    /// Changes the value, and wakes those who wait.
    pub(super) fn change(&self, change: impl FnOnce(&mut T)) {
        self.0.send_modify(|versioned| {
            versioned.version += 1;
            change(&mut versioned.value);
        });
    }

    /// Looks at the value and its version.
    pub(super) fn look<R>(&self, look: impl FnOnce(&T, u64) -> R) -> R {
        let versioned = self.0.borrow();
        look(&versioned.value, versioned.version)
    }

    /// Wait until the version is above this one, but not for long.
    pub(super) async fn wait_after(&self, version: u64) {
        let mut receiver = self.0.subscribe();
        let is_newer = receiver.wait_for(|versioned| versioned.version > version);
        // A change, or the end of patience: the caller looks at what there is.
        drop(tokio::time::timeout(WAIT, is_newer).await);
    }
}
