//! Reaches a server from other threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;
use rustls::ServerConfig;

use super::pace::ClientRates;
use super::transport::Socket;

#[cfg(doc)]
use super::{Server, Settings};

/// Reaches one or more servers from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) reaches: Vec<Reach>,
}

/// State that a server shares with other threads.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    pub(super) is_stopping: Arc<AtomicBool>,
    pub(super) clients: Arc<AtomicUsize>,
    pub(super) held_bytes: Arc<AtomicUsize>,
    /// Settings that the server has not taken over yet.
    pub(super) news: Arc<Mutex<News>>,
    /// Clients that another server accepted, and that this one has not taken yet.
    pub(super) inbox: Arc<Mutex<Vec<Socket>>>,
    pub(super) waker: Arc<Waker>,
}

/// Settings that change while a server runs.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) client_rates: Option<ClientRates>,
}

impl Reach {
    pub(super) fn wake(&self) {
        // A server that cannot be woken has ended.
        drop(self.waker.wake());
    }

    /// Return the number of clients, including those that are still connecting.
    pub(super) fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed) + lock(&self.inbox).len()
    }

    /// Gives the server a client.
    pub(super) fn hand_over(&self, socket: Socket) {
        lock(&self.inbox).push(socket);
        self.wake();
    }
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// Reaches the servers of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.reaches.extend(other.reaches);
        self
    }

    /// Asks the server to answer what it has begun, and end.
    pub fn stop(&self) {
        for reach in &self.reaches {
            reach.is_stopping.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// Gives the server other certificates, for clients that connect from now on. A server that was
    /// set up without TLS stays without.
    pub fn set_tls(&self, configuration: Arc<ServerConfig>) {
        let configurations = std::iter::repeat(configuration);
        for (reach, configuration) in self.reaches.iter().zip(configurations) {
            lock(&reach.news).tls = Some(configuration);
        }
        self.wake();
    }

    /// Limit each client to other rates from now on. Debts under the former ones are forgotten.
    pub fn set_client_rates(&self, rates: ClientRates) {
        for reach in &self.reaches {
            lock(&reach.news).client_rates = Some(rates);
        }
        self.wake();
    }

    /// Makes the server call the function that was given to [`Server::run`].
    pub fn wake(&self) {
        self.reaches.iter().for_each(Reach::wake);
    }

    /// Connections that are open now, those that still negotiate included.
    pub fn clients(&self) -> usize {
        self.reaches.iter().map(|reach| reach.clients.load(Ordering::Relaxed)).sum()
    }

    /// Return the memory that requests and replies take now, in bytes; [`Settings::bytes_max`]
    /// bounds it.
    pub fn held_bytes(&self) -> usize {
        self.reaches.iter().map(|reach| reach.held_bytes.load(Ordering::Relaxed)).sum()
    }
}
