//! Acceptance of clients, and their distribution to servers.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mio::{Interest, Token};

use super::connection::Connection;
use super::handle::{Reach, lock};
use super::transport::Socket;
use super::{Server, activate};
use crate::service::Service;

impl<S: Service> Server<S> {
    pub(super) fn accept(&mut self) {
        if self.was_woken {
            let handed_over = std::mem::take(&mut *lock(&self.reach.inbox));
            for socket in handed_over {
                self.admit(socket);
            }
        }
        if !std::mem::take(&mut self.may_accept) {
            return;
        }
        let mut refusal = None;
        for index in 0..self.listeners.len() {
            loop {
                match self.listeners[index].accept() {
                    Ok(Some(socket)) => self.welcome(socket),
                    Ok(None) => break,
                    // This client has gone before it was accepted; others wait behind it.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        refusal = Some(error);
                        break;
                    }
                }
            }
        }
        match &refusal {
            Some(error) if !self.was_refused => {
                let clients = self.connections.len();
                tracing::warn!(%error, clients, "cannot accept clients; trying again every second");
            }
            None if self.was_refused => tracing::info!("clients can be accepted again"),
            Some(_) | None => {}
        }
        self.was_refused = refusal.is_some();
    }

    fn welcome(&mut self, socket: Socket) {
        let others: Vec<usize> = self.siblings.iter().map(Reach::clients).collect();
        let clients = self.connections.len() + others.iter().sum::<usize>();
        if clients >= self.all_clients_max {
            tracing::warn!(clients, "client refused: already serving the maximum number");
            return;
        }
        match self.siblings.iter().zip(others).min_by_key(|(_, clients)| *clients) {
            Some((sibling, clients)) if clients < self.connections.len() => {
                sibling.hand_over(socket);
            }
            _ => self.admit(socket),
        }
    }

    fn admit(&mut self, mut socket: Socket) {
        if self.reach.is_stopping.load(Ordering::Acquire) {
            return;
        }
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        let registered =
            self.poll.registry().register(socket.source(), Token(index), Interest::READABLE);
        if let Err(error) = registered {
            tracing::warn!(%error, "cannot accept a client");
            return;
        }
        let connection = entry.insert(Connection::new(socket, index, Instant::now()));
        self.turns.join(index, &mut connection.standing);
        activate(&mut self.active, connection, index);
        self.reach.clients.store(self.connections.len(), Ordering::Relaxed);
        tracing::debug!(client = index, "client connected");
    }
}
