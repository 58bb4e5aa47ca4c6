//! Server: one thread that owns the sockets and drives its services.
//!
//! Each turn of the loop reads what some clients have sent, each up to its share (`turns`), hands it to the
//! services, lets them work, and sends each client all its answers in one call. Between turns the server
//! waits for the sockets and the services' descriptors together; before it sleeps it polls for work a little
//! longer ([`Settings::spin`]), which saves a switch of threads when the client runs on another core.
//!
//! Short reads are copied into the client's output. Long ones are sent from where they lie, and what the
//! socket does not take is copied: a client that does not take its replies holds memory of its own, never a
//! frame of the cache.

mod accept;
mod connection;
mod error;
mod exports;
mod handle;
mod in_flight;
mod listen;
mod names;
mod pace;
mod room;
mod settings;
mod spin;
pub mod tls;
pub(crate) mod transport;
mod turns;
mod waiting;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use self::connection::{Connection, Fault, Shared};
pub use self::error::ServerError;
use self::exports::SERVICE;
pub use self::exports::{Export, Exports};
pub use self::handle::Handle;
use self::handle::{News, Reach, lock};
use self::in_flight::{CONNECTIONS_MAX, INPUT_BYTES, Origin};
use self::listen::Listener;
pub use self::listen::{Listen, SocketAccess, bind_unix};
pub use self::pace::ClientRates;
use self::pace::Paced;
use self::room::Room;
pub use self::settings::Settings;
use self::spin::Spin;
use self::transport::InputBuffers;
use self::turns::{SHARE, TURN_COST, Turns};
use self::work::Answered;
use crate::service::Service;

/// Events taken from the system at once.
const EVENTS_MAX: usize = 256;

/// Interval at which connections are checked for negotiations that take too long.
const SWEEP: Duration = Duration::from_secs(1);

/// The wakers' token, like that of the services, lies behind those of the connections and listeners.
const WAKER: Token = Token(usize::MAX);
const LISTENERS_FROM: usize = CONNECTIONS_MAX;

/// Serves exports to clients.
#[derive(Debug)]
pub struct Server<S> {
    settings: Settings,
    exports: Exports<S>,
    listeners: Vec<Listener>,
    connections: Slab<Connection>,
    /// Connections that something was done for in this turn.
    active: Vec<usize>,
    /// Connections that something may be done for.
    turns: Turns,
    /// Connections that exceed their rates, each until its time comes.
    paced: Paced,
    room: Room,
    buffers: InputBuffers,
    /// Room for the bytes of a piece.
    scratch: Vec<u8>,
    /// Clients may wait to be accepted.
    may_accept: bool,
    /// The system refused to accept clients: it is asked again.
    was_refused: bool,
    was_woken: bool,
    turns_since_poll: u32,
    /// Cost of the clients served since the system was asked for others.
    cost_since_poll: u64,
    spin: Spin,
    last_sweep: Instant,
    poll: Poll,
    events: Events,
    reach: Reach,
    /// The other servers that clients are shared out to, and how many clients all together may have.
    siblings: Vec<Reach>,
    all_clients_max: usize,
}

impl<S: Service> Server<S> {
    /// Create a server that does not listen yet.
    ///
    /// # Errors
    /// If an export has no proper name, or the name of another, or the system refuses.
    pub fn new(settings: Settings, exports: Vec<Export<S>>) -> Result<Self, ServerError> {
        let failed = |action| move |source| ServerError::Events { action, source };
        let poll = Poll::new().map_err(failed("wait for events"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(failed("make a waker"))?;
        let registry = poll.registry().try_clone().map_err(failed("wait for a service"))?;
        let mut offered = Exports::new(registry);
        for export in exports {
            offered.add(export)?;
        }
        let clients_max = settings.clients_max.min(CONNECTIONS_MAX);
        let room = Room::new(settings.bytes_max, settings.client_bytes_max, clients_max);
        Ok(Self {
            spin: Spin::new(settings.spin),
            settings: Settings { clients_max, ..settings },
            exports: offered,
            listeners: vec![],
            connections: Slab::new(),
            active: vec![],
            turns: Turns::default(),
            paced: Paced::default(),
            room,
            buffers: InputBuffers::new(INPUT_BYTES),
            scratch: vec![],
            may_accept: false,
            was_refused: false,
            was_woken: false,
            turns_since_poll: 0,
            cost_since_poll: 0,
            last_sweep: Instant::now(),
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            siblings: vec![],
            all_clients_max: clients_max,
            reach: Reach {
                is_stopping: Arc::default(),
                clients: Arc::default(),
                held_bytes: Arc::default(),
                news: Arc::default(),
                inbox: Arc::default(),
                waker: Arc::new(waker),
            },
        })
    }

    /// Listens at one more place. Returns the address if it is TCP, which tells a port that the
    /// system chose.
    ///
    /// # Errors
    /// If the place is taken, or can be reached from other machines without leave.
    pub fn listen(&mut self, place: Listen) -> Result<Option<SocketAddr>, ServerError> {
        let mut listener = Listener::open(place, self.settings.allow_remote)?;
        let token = Token(LISTENERS_FROM + self.listeners.len());
        self.poll
            .registry()
            .register(listener.source(), token, Interest::READABLE)
            .map_err(|source| ServerError::Events { action: "wait for clients", source })?;
        let address = listener.tcp_address();
        self.listeners.push(listener);
        self.may_accept = true;
        Ok(address)
    }

    /// Return the handle by which other threads reach this server.
    pub fn handle(&self) -> Handle {
        Handle { reaches: vec![self.reach.clone()] }
    }

    /// Share the clients that this server accepts among these servers: each client goes to the one
    /// that has the fewest. They serve the same exports, each in a thread of its own; together they
    /// have at most `clients_max` clients.
    pub fn share_clients(&mut self, others: &[Self], clients_max: usize) {
        self.siblings = others.iter().map(|server| server.reach.clone()).collect();
        self.all_clients_max = clients_max;
    }

    /// Serves until it is stopped; calls `on_wake` with the exports after each [`Handle::wake`], also while
    /// the last requests are answered. It may add and remove exports.
    ///
    /// # Errors
    /// If the system refuses to wait for events. No client can bring a server down.
    pub fn run(&mut self, mut on_wake: impl FnMut(&mut Exports<S>)) -> Result<(), ServerError> {
        while !self.reach.is_stopping.load(Ordering::Acquire) {
            self.turn()?;
            self.wake_up(&mut on_wake);
        }
        self.listeners.clear();
        for index in self.indices() {
            let connection = &mut self.connections[index];
            let is_gone = connection.is_negotiating();
            connection.leave(is_gone);
            self.tell_departure(index);
            self.activate(index);
        }
        let start = Instant::now();
        while self.is_needed() && self.may_stay(start) {
            self.turn()?;
            self.wake_up(&mut on_wake);
        }
        Ok(())
    }

    /// Return `true` if a server that has been ending since then may go on for who still uses it.
    fn may_stay(&self, start: Instant) -> bool {
        start.elapsed() < self.settings.negotiation_limit
            || self.exports.services().any(Service::must_stay)
    }

    /// Return `true` if there are clients left, or others who use what is served.
    fn is_needed(&mut self) -> bool {
        let has_clients = !self.connections.is_empty();
        let needed = self.exports.services_mut().map(|service| service.is_needed(has_clients));
        // Each one is asked, also after a `true`: this closes their doors.
        has_clients | needed.fold(false, |one, other| one | other)
    }

    fn wake_up(&mut self, on_wake: &mut impl FnMut(&mut Exports<S>)) {
        if std::mem::take(&mut self.was_woken) {
            self.take_news();
            let used = self.connections.iter().filter_map(|(_, one)| one.export());
            self.exports.count_clients(used);
            on_wake(&mut self.exports);
        }
    }

    /// Return the exports, once the server has ended.
    pub fn into_exports(self) -> Exports<S> {
        self.exports
    }

    /// Takes over settings that a handle brought.
    fn take_news(&mut self) {
        let News { tls, client_rates } = std::mem::take(&mut *lock(&self.reach.news));
        if let (Some(new), Some((configuration, _))) = (tls, &mut self.settings.tls) {
            *configuration = new;
        }
        if let Some(rates) = client_rates.filter(|rates| *rates != self.settings.client_rates) {
            self.settings.client_rates = rates;
            for index in self.indices() {
                self.connections[index].forget_debts();
                self.activate(index);
            }
        }
    }

    /// Run one round: wait, read, work, write.
    fn turn(&mut self) -> Result<(), ServerError> {
        self.wait()?;
        self.accept();
        self.receive();
        self.work();
        self.send();
        self.reach.held_bytes.store(self.room.held_bytes(), Ordering::Relaxed);
        if self.last_sweep.elapsed() >= self.sweep_interval() {
            self.sweep();
        }
        Ok(())
    }

    /// Reads what clients have sent, each for its share, until the turn has cost enough, or a client has asked for
    /// less than would be its right: that is answered before others are read, and does not wait for a whole turn
    /// behind it.
    fn receive(&mut self) {
        let mut left = TURN_COST;
        // Those that come again have had their share of this turn.
        let mut again = vec![];
        while left > 0
            && let Some(index) = self.turns.next()
        {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            if !self.turns.begin(&mut connection.standing) {
                continue;
            }
            // Alone, a client may have the whole turn.
            let share = if self.turns.is_empty() { left } else { SHARE.min(left) };
            let cost = self.receive_from(index, share);
            left = left.saturating_sub(cost);
            again.push(index);
            let served = self.connections.get(index);
            if cost > 0 && served.is_some_and(|one| self.turns.would_be_next(&one.standing)) {
                break;
            }
        }
        for index in again {
            self.activate(index);
        }
    }

    /// Reads what a client has sent. Returns what that cost.
    fn receive_from(&mut self, index: usize, share: u64) -> u64 {
        let connection = &mut self.connections[index];
        let mut shared = Shared {
            exports: &mut self.exports,
            tls: self.settings.tls.as_ref(),
            rates: self.settings.client_rates,
            room: &mut self.room,
            buffers: &mut self.buffers,
        };
        let result = connection.advance(&mut shared, share);
        let cost = connection.spent(share);
        connection.standing.charge(cost);
        self.cost_since_poll += cost;
        connection.count(&mut self.room);
        self.tell_departure(index);
        match result {
            Ok(false) => {}
            Ok(true) => self.activate(index),
            Err(fault) => {
                self.part(index, &fault);
                self.activate(index);
            }
        }
        cost
    }

    /// Lets the services work, and takes their replies.
    fn work(&mut self) {
        for service in self.exports.services_mut() {
            let mut is_going_on = true;
            while is_going_on {
                is_going_on = false;
                service.drive();
                while let Some(reply) = service.next_reply() {
                    let place = Origin::from_tag(reply.tag);
                    let connection = &mut self.connections[place.connection];
                    let scratch = &mut self.scratch;
                    let answered = Answered { place, reply: &reply, scratch };
                    connection.answer(answered, service);
                    activate(&mut self.active, connection, place.connection);
                    // A reply that was taken gave frames back, for which another request may wait.
                    is_going_on = true;
                }
            }
        }
    }

    /// Sends the active clients their answers, and forgets those that are done with.
    fn send(&mut self) {
        let mut active = std::mem::take(&mut self.active);
        for index in active.drain(..) {
            self.connections[index].is_active = false;
            if let Err(fault) = self.connections[index].send()
                && !self.connections[index].look_for_farewell()
            {
                self.part(index, &fault);
            }
            self.settle(index);
        }
        active.append(&mut self.active);
        self.active = active;
        // Whoever is next gets what others gave back.
        if let Some(index) = self.room.next()
            && self.connections[index].has_backlog(&self.room)
        {
            self.turns.join(index, &mut self.connections[index].standing);
        }
    }

    /// After a client was sent what it takes: waits for room in its socket, or forgets it, or has it wait for
    /// its next turn, or until its rates permit one.
    fn settle(&mut self, index: usize) {
        if let Err(fault) = self.watch(index) {
            self.part(index, &fault);
        }
        let connection = &mut self.connections[index];
        connection.count(&mut self.room);
        connection.queue_up(&mut self.room);
        let until = connection.waits_until();
        self.paced.enter(index, &mut connection.paced_until, until);
        if connection.is_over() {
            let mut connection = self.connections.remove(index);
            self.room.count(&mut connection.counted_bytes, 0);
            // The next client can have its descriptor.
            self.may_accept |= self.was_refused;
            // It is closed next.
            drop(self.poll.registry().deregister(connection.transport.socket.source()));
            connection.close();
            self.reach.clients.store(self.connections.len(), Ordering::Relaxed);
            tracing::debug!(client = index, "client disconnected");
            return;
        }
        let connection = &mut self.connections[index];
        if connection.wants_input() || connection.has_backlog(&self.room) {
            self.turns.join(index, &mut connection.standing);
        }
    }

    /// Asks the system to tell when the socket has room, if something waits for that.
    fn watch(&mut self, index: usize) -> Result<(), Fault> {
        let connection = &mut self.connections[index];
        // Most sends take everything, and need no system call here.
        if connection.has_output() != connection.is_blocked {
            connection.is_blocked = connection.has_output();
            let interest = if connection.is_blocked {
                Interest::READABLE | Interest::WRITABLE
            } else {
                Interest::READABLE
            };
            let source = connection.transport.socket.source();
            self.poll.registry().reregister(source, Token(index), interest)?;
        }
        Ok(())
    }

    /// Ends a connection for cause.
    fn part(&mut self, index: usize, fault: &Fault) {
        tracing::info!(client = index, %fault, "client disconnected by the server");
        self.connections[index].leave(true);
        self.tell_departure(index);
    }

    /// Lets a service know that a client goes which cooperates with it.
    fn tell_departure(&mut self, index: usize) {
        if let Some((export, cooperator, departure)) = self.connections[index].take_departure() {
            self.exports.service_mut(export).has_left(cooperator, departure);
        }
    }

    /// Disconnects clients that exceed a time limit, and tries to accept again.
    fn sweep(&mut self) {
        let now = Instant::now();
        self.last_sweep = now;
        // A limit of the system may be gone without an event: now and then it is tried again.
        self.may_accept |= self.was_refused;
        for index in self.indices() {
            let connection = &mut self.connections[index];
            if let Some(reason) = connection.look_over(now, &self.settings) {
                tracing::info!(client = index, reason, "client disconnected by the server");
                connection.leave(true);
                self.tell_departure(index);
                self.activate(index);
            }
        }
    }

    fn activate(&mut self, index: usize) {
        activate(&mut self.active, &mut self.connections[index], index);
    }

    fn indices(&self) -> Vec<usize> {
        self.connections.iter().map(|(index, _)| index).collect()
    }
}

fn activate(active: &mut Vec<usize>, connection: &mut Connection, index: usize) {
    if !connection.is_active {
        connection.is_active = true;
        active.push(index);
    }
}
