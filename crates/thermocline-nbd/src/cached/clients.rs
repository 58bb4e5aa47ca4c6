//! A server whose clients cooperate: their requests on the way to the engine, and what they say besides.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

use thermocline_core::policy::multi::split::{Answer, Held, Hint};
use thermocline_engine::driver::Driver;
use thermocline_engine::{
    Cooperator as Keeper, Demoted, Pushed, Reply, Request, RequestKind, SubmitError,
};

use super::leases::{ClientTerms, Introduction, Leases};
use super::{Answer as Answered, Cached, Pending};
use crate::protocol::{Command, ErrorCode, command_flag};
use crate::service::{self, Cooperator, Departure, Piece, Tag};

/// The clients of a server that cooperate.
#[derive(Debug)]
pub(super) struct Clients {
    leases: Leases,
    /// Per client that has told a number which goes with pages: the last one.
    told: BTreeMap<u8, u64>,
    /// Per client that has told a measure of its cache: the last one.
    measures: BTreeMap<u8, u64>,
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
    /// By the number of a read that the engine has: the page that goes to a client which did not ask for it.
    pushes: BTreeMap<u64, Push>,
    /// The page that goes with the answer which was announced.
    announced_push: Option<service::Pushed>,
}

/// A page on its way to a client that did not ask for it.
///
/// It goes there only if nothing has happened to it since the policy decided that: the lease of the client is as
/// it was, nobody waits for the page, and the client has not asked for it, or given it up, itself.
#[derive(Clone, Copy, Debug)]
struct Push {
    client: u8,
    page: u64,
    /// Number for the client's policy.
    number: u64,
}

/// A page that a client gives up, with its content.
#[derive(Debug)]
struct Offered {
    /// Tag of the answer.
    tag: Tag,
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
            measures: BTreeMap::new(),
            answered: VecDeque::new(),
            recalls: vec![],
            wanted: 0..0,
            offered: VecDeque::new(),
            kept: BTreeMap::new(),
            announced: vec![],
            pushes: BTreeMap::new(),
            announced_push: None,
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
            // It is not counted on any more: this has it give up its pages and attach again.
            clients.answered.push_back((tag, Err(ErrorCode::ShuttingDown)));
            return None;
        };
        let page_bytes = self.engine.shard().options().page_bytes;
        let is_aligned = piece.offset_bytes.is_multiple_of(page_bytes.into())
            && piece.length_bytes.is_multiple_of(page_bytes);
        self.stop_pushes(client, piece);
        let clients = self.clients.as_mut()?;
        let outcome = match piece.command {
            Command::Await => {
                clients.leases.ask(client, tag, now);
                return None;
            }
            Command::Demote if is_aligned && piece.length_bytes == page_bytes => {
                let page = self.pages_of(piece).start;
                self.take_demoted(client, tag, page, payload);
                return None;
            }
            Command::Release if is_aligned => {
                for page in self.pages_of(piece) {
                    self.clients.as_mut()?.leases.give_up(client, page);
                }
                Ok(())
            }
            Command::Tell => {
                let told = piece.offset_bytes;
                let goes_with_page = piece.flags & command_flag::CARRIED != 0;
                if goes_with_page || !clients.leases.are_pushing() {
                    clients.told.insert(client, told);
                }
                if !goes_with_page {
                    clients.measures.insert(client, told);
                }
                let value = clients.measures.get(&client).copied().unwrap_or_default();
                let hint = Hint { hits: piece.length_bytes, value };
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
                    // While a write waits for its pages, nobody else gets them: it would wait for ever.
                    clients.wanted = if may_go { 0..0 } else { pages.clone() };
                    may_go
                }
            };
            if !may_go {
                return Err(SubmitError::Full);
            }
            // A page that was offered before the write has the bytes from before it.
            if request.kind.is_write() {
                clients.withdraw(|offered| pages.contains(&offered.page));
            }
        }
        let Some(keeper) = keeper else { return self.engine.submit(request, payload) };
        self.engine.submit_of(keeper, request, payload)?;
        let answers = self.engine.shard_mut().take_answers();
        if let Some(clients) = &mut self.clients
            && request.kind != RequestKind::Flush
        {
            clients.withdraw(|it| it.client == keeper.client && pages.contains(&it.page));
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
    fn take_demoted(&mut self, client: u8, tag: Tag, page: u64, content: &[u8]) {
        let has_room = self.waiting.is_empty() && self.waiting_reads.is_empty();
        let Some(clients) = &mut self.clients else { return };
        // Not counted on to have the page: its bytes may be from before a write.
        if !clients.leases.give_up(client, page) {
            return clients.answered.push_back((tag, Ok(())));
        }
        // The client may tell another number before the policy hears of this page.
        let carried = clients.told.get(&client).copied();
        if has_room && clients.offered.is_empty() {
            self.hand_over(tag, Demoted { client, page, carried, content });
        } else {
            let content = content.into();
            clients.offered.push_back(Offered { tag, client, page, carried, content });
        }
    }

    /// Lets the policy take a page that a client gives up. The answer to the client brings the page that the
    /// policy sends for it, if there is one.
    fn hand_over(&mut self, tag: Tag, demoted: Demoted<'_>) {
        let client = demoted.client;
        let number = self.pending.insert(Pending { is_push: true, ..Pending::new(tag, None) });
        let pushed = self.engine.shard_mut().take_demoted(demoted, number as u64);
        let Some(clients) = &mut self.clients else { return };
        let Some(Pushed { page, number: told }) = pushed else {
            self.pending.remove(number);
            return clients.answered.push_back((tag, Ok(())));
        };
        if !clients.wanted.contains(&page) {
            clients.leases.hold(client, page..page + 1);
            clients.pushes.insert(number as u64, Push { client, page, number: told });
        }
    }

    /// Stops sending a client pages for which it has a request, or which it gives up: that decides now.
    fn stop_pushes(&mut self, client: u8, piece: &Piece) {
        let pages = match piece.command {
            Command::Read | Command::Write | Command::Demote | Command::Release => {
                self.pages_of(piece)
            }
            Command::Attach
            | Command::Await
            | Command::Tell
            | Command::Flush
            | Command::Disconnect
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::BlockStatus => return,
        };
        if let Some(clients) = &mut self.clients {
            clients.pushes.retain(|_, push| push.client != client || !pages.contains(&push.page));
        }
    }

    /// Return the answer to a client that has given up a page, with the one that goes to it.
    pub(super) fn answer_push(&mut self, tag: Tag, reply: Reply) -> Answered {
        let page_bytes = u64::from(self.engine.shard().options().page_bytes);
        let is_read = reply.result.is_ok();
        let pushed = self.clients.as_mut().and_then(|clients| {
            let Push { client, page, number } = clients.pushes.remove(&reply.tag)?;
            // The client never gets the page.
            if !is_read {
                clients.leases.give_up(client, page);
            }
            let is_kept = is_read && clients.leases.is_kept(client, page);
            is_kept.then_some(service::Pushed { offset_bytes: page * page_bytes, number })
        });
        if let Some(clients) = &mut self.clients {
            clients.announced_push = pushed;
        }
        if pushed.is_some() {
            self.announced = Some((tag, reply));
        } else {
            self.engine.release(reply);
        }
        Answered { tag, outcome: Ok(()), found: None }
    }

    /// Return the page that goes with the answer which was just announced.
    pub(super) fn take_client_push(&mut self) -> Option<service::Pushed> {
        self.clients.as_mut().and_then(|clients| clients.announced_push.take())
    }

    /// Takes the pages whose turn it is.
    fn take_offered(&mut self) {
        let has_room = self.waiting.is_empty() && self.waiting_reads.is_empty();
        let most = if has_room { 0 } else { OFFERED_MAX };
        while let Some(clients) = &mut self.clients
            && clients.offered.len() > most
            && let Some(offered) = clients.offered.pop_front()
        {
            let Offered { tag, client, page, carried, content } = offered;
            self.hand_over(tag, Demoted { client, page, carried, content: &content });
        }
    }

    fn forget_ended(&mut self) {
        while let Some(client) = self.clients.as_mut().and_then(|it| it.leases.next_ended()) {
            if let Some(clients) = &mut self.clients {
                clients.told.remove(&client);
                clients.measures.remove(&client);
                clients.pushes.retain(|_, push| push.client != client);
                clients.withdraw(|offered| offered.client == client);
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

impl Clients {
    /// Takes back the pages of which the policy is not to hear any more.
    fn withdraw(&mut self, is_withdrawn: impl Fn(&Offered) -> bool) {
        let answered = &mut self.answered;
        self.offered.retain(|offered| {
            let stays = !is_withdrawn(offered);
            if !stays {
                answered.push_back((offered.tag, Ok(())));
            }
            stays
        });
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
    let Piece { offset_bytes, flags, .. } = *piece;
    let takes_pushes = flags & command_flag::TAKES_PUSHES != 0;
    let introduction = Introduction {
        identity: half(offset_bytes >> 32),
        pages: half(offset_bytes),
        takes_pushes,
    };
    leases.attach(connection, introduction, now)
}
