//! A server whose clients cooperate: their requests on the way to the engine, and what they say besides.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

use thermocline_core::policy::multi::split::{Answer, Held, Hint};
use thermocline_engine::driver::Driver;
use thermocline_engine::{Cooperator as Keeper, Request, RequestKind, SubmitError};

use super::Cached;
use super::leases::{ClientTerms, Introduction, Leases};
use crate::protocol::{Command, ErrorCode, command_flag};
use crate::service::{Cooperator, Departure, Piece, Tag};

/// The clients of a server that cooperate.
#[derive(Debug)]
pub(super) struct Clients {
    leases: Leases,
    /// Per client that has told a number: the last one.
    told: BTreeMap<u8, u64>,
    /// Pieces that were answered at once.
    answered: VecDeque<(Tag, Result<(), ErrorCode>)>,
    /// Offsets of the pages that the client whose answer was announced has to give up.
    recalls: Vec<u64>,
    /// The pages of the write that waits for clients to give them up: none of these is given to a client
    /// before, or the write might wait for ever.
    wanted: Range<u64>,
    /// Pages that were offered behind requests which wait: the policy hears of these first.
    offered: VecDeque<Offered>,
    /// By the number of a request that the engine has: which of its pages the client keeps.
    kept: BTreeMap<u64, Vec<u64>>,
    /// The same of the request whose reply was announced.
    announced: Vec<u64>,
}

/// A page that a client gives up, with its content.
#[derive(Debug)]
struct Offered {
    client: u8,
    page: u64,
    /// Number that the client told before.
    carried: Option<u64>,
    content: Box<[u8]>,
}

/// Pages that are kept until requests before them have been taken, at most.
const OFFERED_MAX: usize = 64;

impl<D: Driver> Cached<D> {
    /// Has clients cooperate, so many as the terms say. The policy of the engine is the server's half of one
    /// that is cut at the network.
    #[must_use]
    pub fn with_clients(mut self, terms: ClientTerms) -> Self {
        self.clients = Some(Clients {
            leases: Leases::new(terms),
            told: BTreeMap::new(),
            answered: VecDeque::new(),
            recalls: vec![],
            wanted: 0..0,
            offered: VecDeque::new(),
            kept: BTreeMap::new(),
            announced: vec![],
        });
        self
    }

    /// Takes a piece of a client that cooperates. Returns who keeps the pages, if the engine is to have the
    /// piece; otherwise it is answered.
    pub(super) fn take_of_client(
        &mut self,
        connection: Cooperator,
        tag: Tag,
        piece: &Piece,
        payload: &[u8],
    ) -> Option<Keeper> {
        let now = Instant::now();
        let clients = self.clients.as_mut()?;
        if piece.command == Command::Attach {
            let page_bytes = self.engine.shard().options().page_bytes;
            let outcome = if piece.length_bytes == page_bytes {
                attach(&mut clients.leases, connection, piece, now)
            } else {
                Err(ErrorCode::Invalid)
            };
            clients.answered.push_back((tag, outcome));
            self.forget_ended();
            return None;
        }
        let Some(client) = clients.leases.client(connection) else {
            clients.answered.push_back((tag, Err(ErrorCode::ShuttingDown)));
            return None;
        };
        let page_bytes = self.engine.shard().options().page_bytes;
        let is_aligned = piece.offset_bytes.is_multiple_of(page_bytes.into())
            && piece.length_bytes.is_multiple_of(page_bytes);
        let outcome = match piece.command {
            Command::Await => {
                clients.leases.ask(client, tag, now);
                return None;
            }
            Command::Demote if is_aligned && piece.length_bytes == page_bytes => {
                let page = self.pages_of(piece).start;
                self.take_demoted(client, page, payload);
                Ok(())
            }
            Command::Release if is_aligned => {
                for page in self.pages_of(piece) {
                    self.clients.as_mut()?.leases.give_up(client, page);
                }
                Ok(())
            }
            Command::Tell => {
                let hint = Hint { hits: piece.length_bytes, value: piece.offset_bytes };
                clients.told.insert(client, hint.value);
                self.engine.shard_mut().take_hint_of(client, hint);
                Ok(())
            }
            Command::Read | Command::Write if is_aligned => {
                let is_held = piece.flags & command_flag::HELD != 0;
                return Some(Keeper { client, held: if is_held { Held::Yes } else { Held::No } });
            }
            Command::Flush => return Some(Keeper { client, held: Held::No }),
            Command::Attach
            | Command::Read
            | Command::Write
            | Command::Demote
            | Command::Release
            | Command::Disconnect
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::BlockStatus => Err(ErrorCode::Invalid),
        };
        self.clients.as_mut()?.answered.push_back((tag, outcome));
        None
    }

    /// Hands a request to the engine, if no client stands in its way.
    pub(super) fn submit_to_engine(
        &mut self,
        request: Request,
        payload: &[u8],
        keeper: Option<Keeper>,
    ) -> Result<(), SubmitError> {
        let pages = self.pages_within(request.offset_bytes, request.length_bytes);
        if let Some(clients) = &mut self.clients {
            let may_go = match request.kind {
                RequestKind::Flush => true,
                RequestKind::Read | RequestKind::Cache => {
                    let is_wanted =
                        pages.start < clients.wanted.end && clients.wanted.start < pages.end;
                    keeper.is_none() || !is_wanted
                }
                RequestKind::Write | RequestKind::Trim | RequestKind::WriteZeroes => {
                    let writer = keeper.map(|keeper| keeper.client);
                    let may_go = clients.leases.may_write(writer, pages.clone(), Instant::now());
                    clients.wanted = if may_go { 0..0 } else { pages.clone() };
                    may_go
                }
            };
            if !may_go {
                return Err(SubmitError::Full);
            }
            if request.kind.is_write() {
                clients.offered.retain(|offered| !pages.contains(&offered.page));
            }
        }
        let Some(keeper) = keeper else { return self.engine.submit(request, payload) };
        self.engine.submit_of(keeper, request, payload)?;
        let answers = self.engine.shard_mut().take_answers();
        if let Some(clients) = &mut self.clients
            && request.kind != RequestKind::Flush
        {
            let is_its = |offered: &Offered| offered.client == keeper.client;
            clients.offered.retain(|it| !(is_its(it) && pages.contains(&it.page)));
            clients.leases.hold(keeper.client, pages);
            if !answers.is_empty() {
                let numbers = answers.into_iter().map(Answer::to_wire).collect();
                clients.kept.insert(request.tag, numbers);
            }
        }
        Ok(())
    }

    /// Looks after clients that wait, and those that are silent.
    pub(super) fn drive_clients(&mut self) {
        self.take_offered();
        let has_no_writes = self.waiting.is_empty();
        if let Some(clients) = &mut self.clients {
            if has_no_writes {
                clients.wanted = 0..0;
            }
            clients.leases.tick(Instant::now());
            self.forget_ended();
        }
    }

    /// Return the next answer that the leases give, not the engine.
    pub(super) fn next_client_answer(&mut self) -> Option<(Tag, Result<(), ErrorCode>)> {
        let page_bytes = u64::from(self.engine.shard().options().page_bytes);
        let clients = self.clients.as_mut()?;
        if let Some(answered) = clients.answered.pop_front() {
            return Some(answered);
        }
        let (tag, outcome) = clients.leases.next_answer()?;
        let outcome = outcome.map(|pages| {
            clients.recalls = pages.iter().map(|page| page * page_bytes).collect();
        });
        Some((tag, outcome))
    }

    /// Return the offsets of the pages that the client whose answer was just announced has to give up.
    pub(super) fn take_client_recalls(&mut self) -> Vec<u64> {
        self.clients
            .as_mut()
            .map(|clients| std::mem::take(&mut clients.recalls))
            .unwrap_or_default()
    }

    /// Announce the answers that come with the reply to a request.
    pub(super) fn announce_answers(&mut self, number: u64) {
        if let Some(clients) = &mut self.clients {
            clients.announced = clients.kept.remove(&number).unwrap_or_default();
        }
    }

    /// Return the answers that come with the reply that was just announced.
    pub(super) fn take_client_answers(&mut self) -> Vec<u64> {
        let clients = self.clients.as_mut();
        clients.map(|clients| std::mem::take(&mut clients.announced)).unwrap_or_default()
    }

    /// Release the place of a client that has gone.
    pub(super) fn client_left(&mut self, connection: Cooperator, departure: Departure) {
        if let Some(clients) = &mut self.clients {
            clients.leases.left(connection, departure);
            self.forget_ended();
        }
    }

    /// Takes a page that a client gives up. The lease ends now, so that it does not end one that the client
    /// gets later; the policy hears of it after the requests that came before.
    fn take_demoted(&mut self, client: u8, page: u64, content: &[u8]) {
        let has_room = self.waiting.is_empty() && self.waiting_reads.is_empty();
        let Some(clients) = &mut self.clients else { return };
        if !clients.leases.give_up(client, page) {
            return;
        }
        // The client may tell another number before the policy hears of this page.
        let carried = clients.told.get(&client).copied();
        if has_room && clients.offered.is_empty() {
            self.engine.shard_mut().take_demoted(client, page, carried, content);
        } else {
            clients.offered.push_back(Offered { client, page, carried, content: content.into() });
        }
    }

    /// Takes the pages whose turn it is.
    fn take_offered(&mut self) {
        let has_room = self.waiting.is_empty() && self.waiting_reads.is_empty();
        let most = if has_room { 0 } else { OFFERED_MAX };
        let Some(clients) = &mut self.clients else { return };
        while clients.offered.len() > most
            && let Some(Offered { client, page, carried, content }) = clients.offered.pop_front()
        {
            self.engine.shard_mut().take_demoted(client, page, carried, &content);
        }
    }

    fn forget_ended(&mut self) {
        while let Some(client) = self.clients.as_mut().and_then(|it| it.leases.next_ended()) {
            if let Some(clients) = &mut self.clients {
                clients.told.remove(&client);
            }
            self.engine.shard_mut().forget_client(client);
        }
    }

    fn pages_of(&self, piece: &Piece) -> Range<u64> {
        self.pages_within(piece.offset_bytes, piece.length_bytes.into())
    }

    /// Return the pages that a range touches.
    fn pages_within(&self, offset_bytes: u64, length_bytes: u64) -> Range<u64> {
        let page_bytes = u64::from(self.engine.shard().options().page_bytes);
        let end_bytes = offset_bytes.saturating_add(length_bytes);
        offset_bytes / page_bytes..end_bytes.div_ceil(page_bytes)
    }
}

/// Attaches a client that introduces itself.
fn attach(
    leases: &mut Leases,
    connection: Cooperator,
    piece: &Piece,
    now: Instant,
) -> Result<(), ErrorCode> {
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits");
    let Piece { offset_bytes, .. } = *piece;
    let introduction =
        Introduction { identity: half(offset_bytes >> 32), pages: half(offset_bytes) };
    leases.attach(connection, introduction, now)
}
