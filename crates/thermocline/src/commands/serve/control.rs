//! Orders to a running server: HTTP over a Unix socket that only the server's user and root reach.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Serialize};
use thermocline_nbd::server::{Handle, SocketAccess, bind_unix};
use tracing::{debug, warn};

use super::config::{Config, Volumes};
use super::http::{Connection, Request, empty, not_allowed, response};
use super::joining::{JoinOrder, Members, Waits};
use super::new_flash::{NewFlash, Wanted, check_apart, new_flash};
use super::ranges::{RangeOrder, RangeResults, VolumeRanges};
use super::volume::Served;

/// Paths of the orders.
pub(crate) const REPLACE: &str = "/replace";
pub(crate) const RANGE: &str = "/range";

const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// Pause after the system refuses to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The old flash and the new one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplaceOrder {
    /// The new flash, or the new device of a mirrored one.
    pub(crate) flash: PathBuf,
    /// The device of a mirrored flash that is replaced.
    #[serde(default)]
    pub(crate) member: Option<PathBuf>,
    /// The second device of the new flash, if that is to be mirrored.
    #[serde(default)]
    pub(crate) mirror: Option<PathBuf>,
    /// Bytes per second that are copied at most, of a mirrored flash.
    #[serde(default)]
    pub(crate) rate_bytes: Option<u64>,
    /// Capacity that the policy may use; by default, that of the old flash.
    pub(crate) size_bytes: Option<u64>,
    /// `true` if what the new flash holds is given up.
    pub(crate) forces_init: bool,
    /// `true` if lost pages are given up: a later start does not know of them.
    pub(crate) forgets_lost: bool,
}

/// A flash that is ready to take over, and who waits for that.
pub(super) struct Replacement {
    pub(super) flash: NewFlash,
    pub(super) forgets_lost: bool,
    done: mpsc::Sender<Result<String>>,
}

impl Replacement {
    /// Answers who waits.
    pub(super) fn finish(self, result: Result<String>) {
        // Nobody waits if the command was interrupted; the log has it.
        drop(self.done.send(result));
    }
}

impl Config {
    /// Return the path of the control socket: by default beside the clients' socket, or beside that of
    /// virtual machines.
    pub(crate) fn control_socket(&self) -> Option<PathBuf> {
        if let Some(control) = &self.control {
            return Some(control.socket.clone());
        }
        let machines = self.vhost_user.as_ref().map(|section| &section.socket);
        let mut name = self.nbd.socket.as_ref().or(machines)?.as_os_str().to_owned();
        name.push(".control");
        Some(name.into())
    }
}

/// Result of an order.
enum Order {
    /// A replacement, whose end is still to come.
    Replaces(Waits),
    /// An order about a range, which the shards carry out.
    Ranges(RangeResults),
    Over(Response<String>),
}

/// State that the control socket and the server's loop share.
#[derive(Clone)]
pub(super) struct Control {
    shared: Arc<Mutex<Shared>>,
    /// Orders about ranges, by volume.
    volumes: VolumeRanges,
}

/// The file of a socket, which is removed with its server.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever removed the file before us did no harm.
        drop(fs::remove_file(&self.0));
    }
}

struct Shared {
    configs: Volumes,
    /// The devices of a mirrored flash.
    members: Option<Arc<Members>>,
    /// The flash in use: the configuration may name another one already.
    flash: Option<PathBuf>,
    served: Served,
    /// A replacement that the loop has not taken yet.
    ordered: Option<Replacement>,
    is_replacing: bool,
}

impl Control {
    /// Create an empty list of orders.
    pub(super) fn new(
        configs: &Volumes,
        volumes: VolumeRanges,
        served: Served,
        members: Option<Arc<Members>>,
    ) -> Self {
        let flash = configs.each().iter().find_map(|config| config.flash.as_ref());
        let shared = Shared {
            flash: flash.map(|flash| flash.path.clone()),
            configs: configs.clone(),
            members,
            served,
            ordered: None,
            is_replacing: false,
        };
        Self { shared: Arc::new(Mutex::new(shared)), volumes }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take over a configuration that was read again.
    /// Return the configuration of the volume with that name.
    pub(super) fn config_of(&self, name: &str) -> Option<Config> {
        self.lock().configs.of(name).cloned()
    }

    pub(super) fn set_configs(&self, configs: Volumes) {
        self.lock().configs = configs;
    }

    /// Take the replacement that was ordered since the last call.
    pub(super) fn take_order(&self) -> Option<Replacement> {
        self.lock().ordered.take()
    }

    /// Return `true` while the flash is being replaced.
    pub(super) fn is_replacing(&self) -> bool {
        self.lock().is_replacing
    }

    /// Return `true` while a device joins a mirrored flash.
    pub(super) fn is_copying(&self) -> bool {
        self.lock().members.as_ref().is_some_and(|members| members.is_copying())
    }

    /// Permit another replacement, because the last one has ended.
    pub(super) fn has_ended(&self) {
        self.lock().is_replacing = false;
    }

    /// Record the flash that the server uses from now on.
    pub(super) fn has_taken(&self, flash: &NewFlash) {
        let mut shared = self.lock();
        (shared.flash, shared.members) = (Some(flash.path.clone()), flash.members.clone());
    }

    /// Listens at the socket of the configuration, in a thread of its own. A configuration that names no
    /// socket is served without if there can be none. The file lasts as long as what is returned.
    ///
    /// # Errors
    /// The socket that the configuration names cannot be made.
    pub(super) fn start(&self, server: Handle) -> Result<Option<SocketFile>> {
        let (socket, is_named) = {
            let shared = self.lock();
            let config = shared.configs.shared();
            let is_named = config.control.is_some();
            let Some(socket) = config.control_socket() else { return Ok(None) };
            (socket, is_named)
        };
        let started = self
            .listen(&socket, server)
            .with_context(|| format!("`control.socket`: cannot listen at `{}`", socket.display()));
        match started {
            // Nobody asked for a socket at that place: clients are served without it.
            Err(error) if !is_named => {
                let error = format!("{error:#}");
                warn!(error, "no control socket: the server takes no commands while it runs");
                Ok(None)
            }
            started => started.map(Some),
        }
    }

    fn listen(&self, socket: &Path, server: Handle) -> Result<SocketFile> {
        let listener = bind_unix(socket, SocketAccess::default())?;
        let file = SocketFile(socket.to_owned());
        let control = self.clone();
        let work = move || control.accept(&listener, &server);
        thread::Builder::new().name("control".into()).spawn(work)?;
        Ok(file)
    }

    /// Takes one order after the other, for as long as the program runs.
    fn accept(&self, listener: &UnixListener, server: &Handle) {
        loop {
            match listener.accept() {
                Ok((stream, _)) if is_own(&stream) => self.serve(stream, server),
                Ok(_) => warn!("control socket: refused a connection of another user"),
                Err(error) => {
                    warn!(%error, "cannot accept a connection at the control socket");
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Takes the order of a connection. If it takes long, a thread of its own waits for its end.
    fn serve(&self, stream: UnixStream, server: &Handle) {
        let mut connection = Connection::new(&stream);
        let mut request = match connection.next_request() {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => return debug!(%error, "control socket: a connection sent no command"),
        };
        // The answer may come hours later, and nobody reads another request from this connection.
        request.is_last = true;
        let ends: Box<dyn FnOnce() -> Result<String> + Send> = match self.order(&request, server) {
            Order::Over(response) => return answer(&stream, &request, &response),
            Order::Replaces(waits) => {
                Box::new(move || waits.recv().unwrap_or_else(|_| bail_ending()))
            }
            Order::Ranges(results) => {
                let server = server.clone();
                Box::new(move || results.wait(&server))
            }
        };
        // On a thread of its own: an order may take hours, and this thread accepts the next one.
        let work = move || answer(&stream, &request, &said(ends()));
        if let Err(error) = thread::Builder::new().name("order".into()).spawn(work) {
            warn!(%error, "cannot report the end of an order to its command");
        }
    }

    /// Begins what a request orders, or says why not.
    fn order(&self, request: &Request, server: &Handle) -> Order {
        if ![REPLACE, RANGE].contains(&&*request.path) {
            return Order::Over(empty(StatusCode::NOT_FOUND));
        }
        if request.method != Method::POST {
            return Order::Over(not_allowed("POST"));
        }
        let begun = if request.path == REPLACE {
            serde_json::from_slice(&request.body)
                .map(|order| self.prepare(&order).map(Order::Replaces))
        } else {
            serde_json::from_slice(&request.body)
                .map(|order| self.command_range(&order).map(Order::Ranges))
        };
        // By now the order is where the first thread finds it when it wakes.
        server.wake();
        match begun {
            Ok(Ok(order)) => order,
            Ok(Err(error)) => Order::Over(said(Err(error))),
            Err(error) => {
                let text = error.to_string();
                Order::Over(response(StatusCode::BAD_REQUEST, TEXT_TYPE, text))
            }
        }
    }

    /// Gives an order about a range to the shards of its volume.
    fn command_range(&self, order: &RangeOrder) -> Result<RangeResults> {
        let has_volumes = self.lock().configs.are_named();
        ensure!(
            has_volumes || order.volume.is_none(),
            "the server has no volumes: leave --volume out"
        );
        self.volumes.find(order.volume.as_deref())?.order(order)
    }

    /// Begins to copy a mirrored flash to a device that replaces one of its own.
    fn replace_member(&self, order: &ReplaceOrder, member: &Path) -> Result<Waits> {
        let (members, configs, served) = {
            let shared = self.lock();
            (shared.members.clone(), shared.configs.clone(), shared.served.clone())
        };
        let members = members.context(
            "the flash has one device: leave --member out, or set `flash.mirror` to mirror it",
        )?;
        let ReplaceOrder { flash, forces_init, rate_bytes, .. } = order;
        for config in configs.each() {
            check_apart("backing.path", config.backing.path.as_deref(), flash)?;
        }
        let (forces_init, rate_bytes) = (*forces_init, *rate_bytes);
        members.begin(&JoinOrder { member, flash, forces_init, rate_bytes }, || {
            let is_changing = served.all().iter().any(|volume| volume.growth.flash.is_busy());
            ensure!(!is_changing, "the flash is getting another size: try again in a moment");
            Ok(())
        })
    }

    /// Opens and sets up the new flash while the old one is in use.
    fn prepare(&self, order: &ReplaceOrder) -> Result<Waits> {
        if let Some(member) = &order.member {
            ensure!(
                order.mirror.is_none(),
                "--member replaces one device of a mirrored flash: leave --mirror out"
            );
            return self.replace_member(order, member);
        }
        let (configs, in_use, served) = {
            let mut shared = self.lock();
            ensure!(
                shared.members.is_none(),
                "the flash is mirrored: name the device that is to be replaced with --member, and leave --mirror out"
            );
            ensure!(!shared.is_replacing, "the flash is being replaced already: wait for that");
            // Said before it looks whether a size changes. A change says so first, too, so one of them
            // sees the other.
            shared.is_replacing = true;
            (shared.configs.clone(), shared.flash.clone(), shared.served.clone())
        };
        let volumes = served.all();
        let volumes: Vec<_> = volumes.iter().filter(|volume| volume.has_flash).collect();
        let prepared = if volumes.iter().any(|volume| volume.growth.is_busy()) {
            Err(anyhow!("the backing store or the flash is growing: try again in a moment"))
        } else {
            let sizes = volumes.iter().map(|it| (it.name.clone(), it.growth.served_bytes()));
            let (backing_bytes, in_use) = (sizes.collect(), in_use.as_deref());
            new_flash(&Wanted { configs: &configs, backing_bytes, in_use }, order)
        };
        let flash = prepared.inspect_err(|_| self.has_ended())?;
        let (done, waits) = mpsc::channel();
        let forgets_lost = order.forgets_lost;
        self.lock().ordered = Some(Replacement { flash, forgets_lost, done });
        Ok(waits)
    }
}

/// Answer with the result of an order.
fn said(ended: Result<String>) -> Response<String> {
    match ended {
        Ok(text) => response(StatusCode::OK, TEXT_TYPE, text),
        Err(error) => response(StatusCode::CONFLICT, TEXT_TYPE, format!("{error:#}")),
    }
}

fn answer(stream: &UnixStream, request: &Request, response: &Response<String>) {
    if let Err(error) = Connection::new(stream).answer(request, response) {
        debug!(%error, "the command that ordered a change has ended");
    }
}

fn bail_ending() -> Result<String> {
    bail!("the server ended before the flash was replaced; its note says which flash it needs")
}

/// Return `true` if the server's own user or root is at the other end, whatever the socket's file permits.
fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// Sends an order to a running server, and waits for its end.
///
/// # Errors
/// There is no server, or it says why it cannot.
pub(crate) fn send(config: &Config, path: &str, order: &impl Serialize) -> Result<String> {
    let socket = config.control_socket().context(
        "the configuration has no `control.socket`, and no `nbd.socket` that it could be beside",
    )?;
    let at = || format!("`{}`: cannot reach the server: does it run?", socket.display());
    let mut stream = UnixStream::connect(&socket).with_context(at)?;
    let body = serde_json::to_string(order)?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: thermocline\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut answer = String::new();
    let exchanged = stream
        .write_all((head + &body).as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer));
    exchanged.with_context(at)?;
    let (head, text) = answer.split_once("\r\n\r\n").context("the server ended meanwhile")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{text}");
    Ok(text.to_owned())
}
