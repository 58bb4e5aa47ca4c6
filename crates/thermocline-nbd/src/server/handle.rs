//! Reaches a server from other threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;
use rustls::ServerConfig;

#[cfg(doc)]
use super::{Server, Settings};

/// Reaches a server from another thread.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) is_stopping: Arc<AtomicBool>,
    pub(super) clients: Arc<AtomicUsize>,
    pub(super) held_bytes: Arc<AtomicUsize>,
    /// Certificates that the server has not taken over yet.
    pub(super) new_tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    pub(super) waker: Arc<Waker>,
}

impl Handle {
    /// Asks the server to answer what it has begun, and end.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Gives the server other certificates, for clients that connect from now on. A server that was
    /// set up without TLS stays without.
    pub fn set_tls(&self, configuration: Arc<ServerConfig>) {
        *self.new_tls.lock().unwrap_or_else(PoisonError::into_inner) = Some(configuration);
        self.wake();
    }

    /// Makes the server call the function that was given to [`Server::run`].
    pub fn wake(&self) {
        // A server that cannot be woken has ended.
        drop(self.waker.wake());
    }

    /// Connections that are open now, those that still negotiate included.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// The memory that requests and replies take now, in bytes; [`Settings::bytes_max`] bounds it.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }
}
