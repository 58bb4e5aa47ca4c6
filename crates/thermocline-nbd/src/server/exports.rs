//! The exports of a server, which may come and go while it runs.
//!
//! An export has a place as long as it is there. Clients find those that are offered, by name, and keep the
//! place of the one that they chose. One that is withdrawn takes no more clients, and goes on serving those
//! that it has; once they have left, it can be removed.

use std::os::fd::RawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use slab::Slab;

use super::error::ServerError;
use super::names::check_name;
use crate::protocol::ExportInfo;
use crate::service::Service;

/// Event of a service, at the server's poll.
pub(super) const SERVICE: Token = Token(usize::MAX - 1);

/// An export and what serves it.
#[derive(Debug)]
pub struct Export<S> {
    /// Information for clients.
    pub info: ExportInfo,
    /// Service that holds its bytes.
    pub service: S,
}

/// The exports of a server, for the function that is given to [`Server::run`](super::Server::run).
#[derive(Debug)]
pub struct Exports<S> {
    served: Slab<Served<S>>,
    /// Exports that clients are offered, and the place of each.
    offered: Vec<ExportInfo>,
    places: Vec<usize>,
    /// Where the services' descriptors are waited for.
    registry: Registry,
}

/// An export in its place.
#[derive(Debug)]
struct Served<S> {
    export: Export<S>,
    is_offered: bool,
    /// Descriptors of the service that are waited for.
    descriptors: Vec<RawFd>,
    /// Clients that use it, as of the last count.
    clients: usize,
    /// Requests that waited because their client exceeded its rates.
    paced_requests: u64,
}

impl<S> Exports<S> {
    pub(super) const fn new(registry: Registry) -> Self {
        Self { served: Slab::new(), offered: vec![], places: vec![], registry }
    }

    /// Take no more clients for an export. Those that have chosen it stay.
    ///
    /// # Panics
    /// If nothing is in that place.
    pub fn withdraw(&mut self, place: usize) {
        self.served[place].is_offered = false;
        self.offer();
    }

    /// Take clients again for an export that was withdrawn.
    ///
    /// # Panics
    /// If nothing is in that place.
    pub fn offer_again(&mut self, place: usize) {
        self.served[place].is_offered = true;
        self.offer();
    }

    /// Offer an export with another size, which its service serves already. Clients that have chosen it keep
    /// the size that they know.
    ///
    /// # Panics
    /// If nothing is in that place.
    pub fn resize(&mut self, place: usize, size_bytes: u64) {
        self.served[place].export.info.size_bytes = size_bytes;
        self.offer();
    }

    /// Remove an export that was withdrawn. Returns its service.
    ///
    /// # Panics
    /// If nothing is in that place, or the export is offered, or has clients.
    pub fn remove(&mut self, place: usize) -> S {
        let Served { export, is_offered, descriptors, clients, .. } = self.served.remove(place);
        assert!(!is_offered && clients == 0, "nobody uses the export, or will");
        self.forget(&descriptors);
        export.service
    }

    /// Return the number of clients that use an export in this thread. One that has gone counts as long as
    /// its requests are under way.
    ///
    /// # Panics
    /// If nothing is in that place.
    pub fn clients(&self, place: usize) -> usize {
        self.served[place].clients
    }

    /// Return the number of requests to an export in this thread that waited because their client exceeded
    /// its [rates](super::ClientRates).
    ///
    /// # Panics
    /// If nothing is in that place.
    pub fn paced_requests(&self, place: usize) -> u64 {
        self.served[place].paced_requests
    }

    /// Return the service in a place.
    ///
    /// # Panics
    /// If nothing is in that place.
    pub fn service_mut(&mut self, place: usize) -> &mut S {
        &mut self.served[place].export.service
    }

    /// Return all services, in the order of their places.
    pub fn services(&self) -> impl Iterator<Item = &S> {
        self.served.iter().map(|(_, served)| &served.export.service)
    }

    /// Return all services, in the order of their places.
    pub fn services_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.served.iter_mut().map(|(_, served)| &mut served.export.service)
    }

    /// Return all services with their places, once the server has ended.
    pub fn into_services(self) -> impl Iterator<Item = (usize, S)> {
        self.served.into_iter().map(|(place, served)| (place, served.export.service))
    }

    /// Return what clients are offered.
    pub(super) fn offered(&self) -> &[ExportInfo] {
        &self.offered
    }

    /// Return the place of an export by its number in the offer.
    pub(super) fn place(&self, number: usize) -> usize {
        self.places[number]
    }

    /// Count the clients that use each export, of which the places are given.
    pub(super) fn count_clients(&mut self, used: impl Iterator<Item = usize>) {
        self.served.iter_mut().for_each(|(_, served)| served.clients = 0);
        for place in used {
            self.served[place].clients += 1;
        }
    }

    /// Count a request that has to wait because its client exceeds its rates.
    pub(super) fn count_paced(&mut self, place: usize) {
        self.served[place].paced_requests += 1;
    }

    fn offer(&mut self) {
        let offered = self.served.iter().filter(|(_, served)| served.is_offered);
        (self.places, self.offered) =
            offered.map(|(place, served)| (place, served.export.info.clone())).unzip();
    }

    fn forget(&self, descriptors: &[RawFd]) {
        for descriptor in descriptors {
            // It fails if the descriptor is closed, and then nobody waits for it either.
            drop(self.registry.deregister(&mut SourceFd(descriptor)));
        }
    }
}

impl<S: Service> Exports<S> {
    /// Offer one more export. Returns its place.
    ///
    /// # Errors
    /// If it has no proper name, or the name of another, or the system refuses. Its service is dropped then.
    pub fn add(&mut self, export: Export<S>) -> Result<usize, ServerError> {
        check_name(&export.info, self.served.iter().map(|(_, other)| &other.export.info))?;
        let descriptors = export.service.descriptors();
        for (index, descriptor) in descriptors.iter().enumerate() {
            let registered =
                self.registry.register(&mut SourceFd(descriptor), SERVICE, Interest::READABLE);
            if let Err(source) = registered {
                self.forget(&descriptors[..index]);
                return Err(ServerError::Events { action: "wait for a service", source });
            }
        }
        let (clients, paced_requests) = (0, 0);
        let served = Served { export, is_offered: true, descriptors, clients, paced_requests };
        let place = self.served.insert(served);
        self.offer();
        Ok(place)
    }

    /// Wait for descriptors that a service has got since it was added or last looked at.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn find_descriptors(&mut self, place: usize) -> Result<(), ServerError> {
        let served = &mut self.served[place];
        let found = served.export.service.descriptors();
        for descriptor in found.iter().filter(|it| !served.descriptors.contains(it)) {
            let registered =
                self.registry.register(&mut SourceFd(descriptor), SERVICE, Interest::READABLE);
            registered
                .map_err(|source| ServerError::Events { action: "wait for a service", source })?;
        }
        let former = std::mem::replace(&mut served.descriptors, found.clone());
        let former: Vec<RawFd> = former.into_iter().filter(|it| !found.contains(it)).collect();
        self.forget(&former);
        Ok(())
    }
}
