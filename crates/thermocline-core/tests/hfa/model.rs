//! HFA as the paper describes it: queues are vectors, head first, a bubble sort is a walk, and each
//! count is taken again each time.

use std::collections::BTreeMap;

/// Variant of HFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    D,
    P,
    H,
}

/// The parameters; the defaults are the documented ones.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct Settings {
    pub(crate) kind: Kind,
    pub(crate) t: u64,
    pub(crate) k: u64,
    pub(crate) delta: f64,
    pub(crate) f_min: f64,
    pub(crate) t_out_share: f64,
    pub(crate) q1_share: f64,
    pub(crate) is_dynamic: bool,
    pub(crate) samples: u64,
    /// recent, period, stay or mean.
    pub(crate) cold: &'static str,
    pub(crate) ghost_ratio: f64,
    pub(crate) is_strict: bool,
    pub(crate) resort: bool,
    pub(crate) d_overflow_demotes: bool,
    pub(crate) miss_to_q1: bool,
    pub(crate) q2_by_hotness: bool,
    pub(crate) promote_probability: Option<f64>,
    pub(crate) khv: [f64; 3],
    pub(crate) khv_steps: usize,
    /// H: one clock counts all accesses, as when hints are recorded for an oracle.
    pub(crate) is_whole: bool,
    /// Hints of an earlier run: (level, page, slot), how many.
    pub(crate) oracle: Option<BTreeMap<(usize, u32, u64), u32>>,
}

impl Settings {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            t: 1000,
            k: 6,
            delta: 0.5,
            f_min: 1.0,
            t_out_share: 0.001,
            q1_share: 0.5,
            is_dynamic: true,
            samples: 10,
            cold: "recent",
            ghost_ratio: 1.0,
            is_strict: false,
            resort: false,
            d_overflow_demotes: false,
            miss_to_q1: false,
            q2_by_hotness: false,
            promote_probability: None,
            khv: [2.0, 1.0, 0.5],
            khv_steps: 3,
            is_whole: false,
            oracle: None,
        }
    }
}

#[derive(Clone, Debug)]
struct Block {
    page: u32,
    hits: u32,
    load: u64,
    update: u64,
    last_hit: Option<u64>,
    f: f64,
    h: f64,
}

#[derive(Clone, Debug)]
struct Record {
    page: u32,
    slot: u64,
    count: u32,
}

#[derive(Clone, Debug)]
struct Level {
    capacity: usize,
    c1: usize,
    q1: Vec<Block>,
    q2: Vec<Block>,
    t_out: Vec<Record>,
    t_out_capacity: usize,
    cold: Vec<usize>,
    hot: Vec<usize>,
    /// Knowledge of the next level below about this one.
    known_below: Promote,
}

#[derive(Clone, Debug)]
struct Promote {
    probability: f64,
    ceiling: f64,
    last_hint: u64,
    hints: u64,
    last_ratio: Option<f64>,
}

impl Level {
    fn len(&self) -> usize {
        self.q1.len() + self.q2.len()
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.q1.iter().chain(&self.q2)
    }

    fn remove(&mut self, page: u32) -> Block {
        for queue in [&mut self.q1, &mut self.q2] {
            if let Some(place) = queue.iter().position(|block| block.page == page) {
                return queue.remove(place);
            }
        }
        panic!("page {page} is not in this level")
    }

    /// Newest minus oldest timestamp.
    fn life(&self) -> u64 {
        let stamps = || self.blocks().map(|block| block.last_hit.unwrap_or(block.load));
        stamps().max().unwrap_or(0) - stamps().min().unwrap_or(0)
    }
}

/// Moves forward from `from`, or the tail, until a strictly hotter block is ahead.
fn bubble(queue: &mut Vec<Block>, from: usize, block: Block) {
    let mut from = from.min(queue.len());
    while from > 0 && queue[from - 1].h <= block.h {
        from -= 1;
    }
    queue.insert(from, block);
}

/// Return the capacities of all levels, of which each client has the first.
pub(crate) fn repeated(capacities: &[u32], clients: usize) -> Vec<u32> {
    std::iter::repeat_n(capacities[0], clients).chain(capacities[1..].iter().copied()).collect()
}

pub(crate) struct Hfa {
    settings: Settings,
    /// The first levels of all clients, then the shared ones.
    levels: Vec<Level>,
    clients: usize,
    /// Client on whose path pages move.
    client: usize,
    moves: BTreeMap<u32, Vec<f64>>,
    /// Pages in no cache whose moves are known, the oldest first, and how many there may be.
    ghosts: Vec<u32>,
    ghosts_max: usize,
    draw: Box<dyn FnMut() -> f64>,
    /// Accesses so far; with halves, those that the shared levels have heard of.
    now: u64,
    /// With halves: the accesses of each client so far, and its hits of reads that the shared levels have not
    /// heard of.
    clocks: Vec<u64>,
    untold: Vec<u64>,
    /// `true` if the access that the shared levels heard of last has not ended there.
    is_open: bool,
    has_promoted: bool,
    /// Hits per level, disk last.
    pub(crate) hits: Vec<u64>,
    pub(crate) hints: BTreeMap<(usize, u32, u64), u32>,
}

impl Hfa {
    pub(crate) fn new(
        settings: Settings,
        capacities: &[u32],
        clients: usize,
        draw: impl FnMut() -> f64 + 'static,
    ) -> Self {
        let capacities = &repeated(capacities, clients);
        let cached = f64::from(capacities.iter().sum::<u32>());
        let ghosts_max = (settings.ghost_ratio * cached) as usize;
        let level = |(index, &capacity): (usize, &u32)| {
            let below = (index + 1).max(clients);
            let above = f64::from(capacities[..below.min(capacities.len())].iter().sum::<u32>());
            let own = capacities.get(below).map_or(0.0, |&capacity| f64::from(capacity));
            let ceiling = above / (above + own);
            let given = settings.promote_probability;
            // 4096 bytes per page, 16 bytes per record.
            let records = settings.t_out_share * 256.0 * f64::from(capacity);
            let records = if settings.t_out_share > 0.0 { records.max(1.0) } else { 0.0 };
            let capacity = capacity as usize;
            let c1 = (settings.q1_share * capacity as f64) as usize;
            Level {
                capacity,
                c1: c1.clamp(1, (capacity - 1).max(1)),
                q1: vec![],
                q2: vec![],
                t_out: vec![],
                t_out_capacity: if settings.k == 0 { 0 } else { records as usize },
                cold: vec![],
                hot: vec![],
                known_below: Promote {
                    probability: given.unwrap_or(ceiling),
                    ceiling,
                    last_hint: 0,
                    hints: 0,
                    last_ratio: None,
                },
            }
        };
        Self {
            levels: capacities.iter().enumerate().map(level).collect(),
            settings,
            clients,
            client: 0,
            moves: BTreeMap::new(),
            ghosts: vec![],
            ghosts_max,
            draw: Box::new(draw),
            now: 0,
            clocks: vec![0; clients],
            untold: vec![0; clients],
            is_open: false,
            has_promoted: false,
            hits: vec![0; capacities.len() + 1],
            hints: BTreeMap::new(),
        }
    }

    pub(crate) fn access(&mut self, client: usize, page: u32, is_write: bool) {
        self.has_promoted = false;
        self.client = client;
        self.clocks[client] += 1;
        let path = self.path();
        let place = path.iter().position(|&level| self.holds(level, page));
        let found = place.map_or(self.levels.len(), |place| path[place]);
        self.hits[found] += 1;
        // A client's next message reports its read hits.
        if self.is_split() && found == client && !is_write {
            self.untold[client] += 1;
        } else {
            self.tell(client);
            self.advance();
        }
        if self.settings.kind == Kind::P && self.settings.promote_probability.is_none() {
            for place in 1..=place.unwrap_or(path.len()).min(path.len() - 1) {
                self.adapt(path[place - 1], path[place]);
            }
        }
        if is_write {
            for other in (0..self.clients).filter(|&other| other != client) {
                if self.holds(other, page) {
                    self.levels[other].remove(page);
                    // On two hosts, the server knows already that the writer has the page.
                    if !self.is_split() {
                        self.leave_caches(page);
                    }
                }
            }
        }
        if found == self.levels.len() {
            self.ghosts.retain(|&ghost| ghost != page);
            match self.settings.kind {
                Kind::P => self.receive_p(*path.last().unwrap(), page, 0.0),
                Kind::D | Kind::H => self.receive(client, page, 0.0, false),
            }
        } else if self.moves_up(found, page) {
            let carried = self.leave(found, page, 0);
            match self.settings.kind {
                Kind::D => self.receive(client, page, carried, false),
                Kind::P => self.receive_p(self.above(found), page, carried),
                Kind::H => self.receive(self.above(found), page, carried, false),
            }
        } else {
            self.stay(found, page);
        }
        if self.is_split() {
            self.tick(client..client + 1);
        }
        // One client's shared levels hear of everything.
        if !self.is_split() || self.clients == 1 {
            self.tell(client);
            self.end();
        }
    }

    /// Return `true` if clients and shared levels are halves, each with a clock of its own.
    fn is_split(&self) -> bool {
        self.settings.kind != Kind::H
            || self.clients > 1 && !self.settings.is_whole && self.settings.oracle.is_none()
    }

    /// Lets the shared levels hear of a client's hits.
    fn tell(&mut self, client: usize) {
        for _ in 0..std::mem::take(&mut self.untold[client]) {
            self.advance();
        }
    }

    /// Lets an access begin at the shared levels.
    fn advance(&mut self) {
        self.end();
        self.now += 1;
        self.is_open = true;
    }

    /// Lets the last access end at the shared levels.
    fn end(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let first = if self.is_split() { self.clients } else { 0 };
            self.tick(first..self.levels.len());
        }
    }

    /// Return the time at a level.
    fn clock(&self, level: usize) -> u64 {
        if self.is_split() && self.is_top(level) { self.clocks[level] } else { self.now }
    }

    /// Return the levels that the client sees, fastest first.
    fn path(&self) -> Vec<usize> {
        std::iter::once(self.client).chain(self.clients..self.levels.len()).collect()
    }

    fn holds(&self, level: usize, page: u32) -> bool {
        self.levels[level].blocks().any(|block| block.page == page)
    }

    fn is_top(&self, level: usize) -> bool {
        level < self.clients
    }

    /// Return the level above a shared one, on the client's path.
    fn above(&self, level: usize) -> usize {
        if level == self.clients { self.client } else { level - 1 }
    }

    /// Return the pages of a level, sorted.
    pub(crate) fn held(&self, level: usize) -> Vec<u32> {
        let mut pages: Vec<u32> = self.levels[level].blocks().map(|block| block.page).collect();
        pages.sort_unstable();
        pages
    }

    /// Return the policy's gauges: Q1, Q2, records, promote probability. With several clients,
    /// first levels report how often pages rise to them, and the level below them does not.
    pub(crate) fn gauges(&self, level: usize) -> (usize, usize, usize, f64) {
        let told_of = match (self.clients, self.is_top(level)) {
            (1, true) => None,
            (_, true) => Some(level),
            (1, false) => Some(level - 1),
            (_, false) => Some(level - 1).filter(|&above| !self.is_top(above)),
        };
        let probability = told_of.map_or(0.0, |above| self.levels[above].known_below.probability);
        let level = &self.levels[level];
        (level.q1.len(), level.q2.len(), level.t_out.len(), probability)
    }

    /// Q1 | Q2 of each level, head first.
    pub(crate) fn state(&self) -> String {
        let pages = |queue: &[Block]| {
            queue.iter().map(|block| block.page.to_string()).collect::<Vec<_>>().join(" ")
        };
        let levels = self.levels.iter();
        let levels = levels.map(|level| format!("{} | {}", pages(&level.q1), pages(&level.q2)));
        levels.collect::<Vec<_>>().join("; ")
    }

    /// Return the records of a level, sorted.
    pub(crate) fn t_out(&self, level: usize) -> Vec<(u32, u64, u32)> {
        let records = self.levels[level].t_out.iter();
        let mut records: Vec<_> = records.map(|r| (r.page, r.slot, r.count)).collect();
        records.sort_unstable();
        records
    }

    pub(crate) fn c1(&self, level: usize) -> usize {
        self.levels[level].c1
    }

    fn slot(&self, level: usize) -> u64 {
        self.clock(level) / self.settings.t
    }

    /// Counts by how many slots ago, or ahead for an oracle, nearest first.
    fn counts(&self, level: usize, page: u32) -> Vec<(u64, u32)> {
        let slot = self.slot(level);
        (0..self.settings.k)
            .filter_map(|j| {
                let count = if let Some(log) = &self.settings.oracle {
                    log.get(&(level, page, slot + j)).copied()
                } else {
                    let mut records = self.levels[level].t_out.iter();
                    let record = records.find(|r| r.page == page && r.slot + j == slot);
                    record.map(|record| record.count)
                };
                count.map(|count| (j, count))
            })
            .collect()
    }

    fn is_live(&self, level: usize, page: u32) -> bool {
        !self.counts(level, page).is_empty()
    }

    pub(crate) fn f(&self, level: usize, page: u32) -> f64 {
        let terms = self.counts(level, page).into_iter();
        terms
            .map(|(j, count)| libm::pow(self.settings.delta, j as f64) * f64::from(count))
            .sum::<f64>()
            + 0.0
    }

    pub(crate) fn h(&self, f: f64, hits: u32, t2: u64) -> f64 {
        let Settings { k, t, .. } = self.settings;
        let first = if k == 0 { 0.0 } else { f / (k as f64 * t as f64) };
        first + f64::from(hits) / t2.max(1) as f64
    }

    fn khv(&self, page: u32) -> f64 {
        let decay = self.settings.khv[2];
        let moves = self.moves.get(&page).map_or(&[][..], Vec::as_slice);
        let mut worth = 1.0;
        moves.iter().fold(0.0, |sum, value| {
            let term = worth * value;
            worth *= decay;
            sum + term
        })
    }

    fn moves_up(&mut self, level: usize, page: u32) -> bool {
        if self.is_top(level) {
            return false;
        }
        match self.settings.kind {
            Kind::D => true,
            Kind::P => (self.draw)() < self.levels[self.above(level)].known_below.probability,
            Kind::H => {
                let above = &self.levels[self.above(level)];
                let values = above.q2.iter().map(|block| self.khv(block.page));
                above.len() < above.capacity
                    || (!above.q2.is_empty() && self.khv(page) > values.fold(f64::MAX, f64::min))
            }
        }
    }

    fn stay(&mut self, level: usize, page: u32) {
        let is_in = |queue: &[Block]| queue.iter().position(|block| block.page == page);
        let place = is_in(&self.levels[level].q1);
        let now = self.clock(level);
        let mut block = self.levels[level].remove(page);
        block.hits += 1;
        block.last_hit = Some(now);
        if now - block.update > self.settings.t {
            block.f = self.f(level, page);
            block.update = now;
        }
        block.h = self.h(block.f, block.hits, now - block.load);
        let q1 = &mut self.levels[level].q1;
        match (place, self.settings.kind) {
            (Some(_), Kind::D) => q1.insert(0, block),
            (Some(place), _) => bubble(q1, place, block),
            (None, _) => {
                self.insert_q1(level, block);
                self.fit(level);
            }
        }
    }

    fn insert_q1(&mut self, level: usize, block: Block) {
        let strict = self.settings.is_strict;
        let entry = &mut self.levels[level];
        if self.settings.kind == Kind::D {
            entry.q1.insert(0, block);
        } else {
            bubble(&mut entry.q1, usize::MAX, block);
        }
        if entry.q1.len() <= entry.c1 {
            return;
        }
        let tail = entry.q1.last().unwrap();
        let is_kept = if self.settings.kind == Kind::D {
            !self.settings.d_overflow_demotes
        } else {
            let room = if strict {
                entry.q2.len() < entry.capacity - entry.c1
            } else {
                entry.len() <= entry.capacity
            };
            let least = entry.q2.iter().map(|other| other.hits).min();
            room || least.is_some_and(|least| tail.hits > least)
        };
        let page = tail.page;
        if is_kept {
            let tail = entry.q1.pop().unwrap();
            self.insert_q2(level, tail);
        } else {
            self.demote(level, page);
        }
    }

    fn insert_q2(&mut self, level: usize, block: Block) {
        let q2 = &mut self.levels[level].q2;
        if self.settings.q2_by_hotness {
            bubble(q2, usize::MAX, block);
        } else {
            q2.insert(0, block);
        }
    }

    fn victim(&self, level: usize) -> u32 {
        let entry = &self.levels[level];
        let Some(tail) = entry.q2.last() else { return entry.q1.last().unwrap().page };
        if self.settings.kind != Kind::H {
            return tail.page;
        }
        let mut best = tail.page;
        for block in entry.q2.iter().rev() {
            if self.khv(block.page) < self.khv(best) {
                best = block.page;
            }
        }
        best
    }

    fn fit(&mut self, level: usize) {
        loop {
            let entry = &self.levels[level];
            let over_q2 = self.settings.is_strict && entry.q2.len() > entry.capacity - entry.c1;
            if entry.len() <= entry.capacity && !over_q2 {
                break;
            }
            self.demote(level, self.victim(level));
        }
    }

    fn demote(&mut self, level: usize, page: u32) {
        let below = (level + 1).max(self.clients);
        let has_rival = |other: usize| other != level && self.holds(other, page);
        let is_elsewhere = self.is_top(level) && (0..self.clients).any(has_rival);
        if self.is_split() && self.is_top(level) && self.settings.kind != Kind::P {
            // The client cannot know who else has the page; the server records the move.
            self.tell(level);
            let carried = self.hint(level, page);
            if !is_elsewhere {
                self.note_move(page, 1);
                self.receive(below, page, carried, true);
            }
        } else if below == self.levels.len() || self.settings.kind == Kind::P || is_elsewhere {
            self.levels[level].remove(page);
            self.leave_caches(page);
        } else {
            let carried = self.leave(level, page, 1);
            self.receive(below, page, carried, true);
        }
    }

    /// Note that a page left a level for none: if it is in no other one, its moves are known for a
    /// while yet.
    fn leave_caches(&mut self, page: u32) {
        let is_cached = (0..self.levels.len()).any(|level| self.holds(level, page));
        if is_cached || !self.moves.contains_key(&page) {
            return;
        }
        self.ghosts.push(page);
        if self.ghosts.len() > self.ghosts_max {
            let oldest = self.ghosts.remove(0);
            self.moves.remove(&oldest);
        }
    }

    /// Note a hint: `way` 0 is a promotion, 1 a demotion. The frequency carried is returned.
    fn leave(&mut self, level: usize, page: u32, way: usize) -> f64 {
        self.note_move(page, way);
        self.hint(level, page)
    }

    fn note_move(&mut self, page: u32, way: usize) {
        let moves = self.moves.entry(page).or_default();
        moves.insert(0, self.settings.khv[way]);
        moves.truncate(self.settings.khv_steps);
    }

    /// Take a page out of a level with a hint. The frequency carried is returned: of H, in 32 bits.
    fn hint(&mut self, level: usize, page: u32) -> f64 {
        self.levels[level].remove(page);
        self.record(level, page);
        let f = self.f(level, page);
        if self.settings.kind == Kind::H { f64::from(f as f32) } else { f }
    }

    pub(crate) fn record(&mut self, level: usize, page: u32) {
        let (slot, k) = (self.slot(level), self.settings.k);
        *self.hints.entry((level, page, slot)).or_default() += 1;
        let entry = &mut self.levels[level];
        if entry.t_out_capacity == 0 || self.settings.oracle.is_some() {
            return;
        }
        if let Some(record) = entry.t_out.iter_mut().find(|r| r.page == page && r.slot == slot) {
            record.count += 1;
            return;
        }
        if entry.t_out.len() == entry.t_out_capacity {
            entry.t_out.retain(|record| slot - record.slot < k);
        }
        if entry.t_out.len() == entry.t_out_capacity {
            let worst = (0..entry.t_out.len())
                .min_by_key(|&index| (entry.t_out[index].slot, entry.t_out[index].count));
            entry.t_out.remove(worst.unwrap());
        }
        entry.t_out.push(Record { page, slot, count: 1 });
    }

    fn arrival(&self, level: usize, page: u32, carried: f64) -> Block {
        let f = self.f(level, page).max(carried);
        let h = self.h(f, 0, 1);
        let now = self.clock(level);
        Block { page, hits: 0, load: now, update: now, last_hit: None, f, h }
    }

    fn receive(&mut self, level: usize, page: u32, carried: f64, is_demoted: bool) {
        let block = self.arrival(level, page, carried);
        let Settings { kind, f_min, miss_to_q1, .. } = self.settings;
        let to_q1 = match kind {
            Kind::D if self.is_top(level) => miss_to_q1 && block.f > f_min,
            Kind::D | Kind::P => block.f > f_min,
            Kind::H => self.is_live(level, page),
        };
        if to_q1 {
            self.insert_q1(level, block);
        } else {
            self.insert_q2(level, block);
        }
        self.fit(level);
        if kind == Kind::H && is_demoted && !self.has_promoted {
            let q1 = &self.levels[level].q1;
            let Some(own) = q1.iter().find(|block| block.page == page) else { return };
            if q1[0].h > own.h {
                self.has_promoted = true;
                let head = q1[0].page;
                let carried = self.leave(level, head, 0);
                self.receive(self.above(level), head, carried, false);
            }
        }
    }

    fn receive_p(&mut self, level: usize, page: u32, carried: f64) {
        let passes = !self.is_top(level)
            && self.f(level, page).max(carried) <= self.settings.f_min
            && (self.draw)() < self.levels[self.above(level)].known_below.probability;
        if passes {
            self.record(level, page);
            let carried = self.f(level, page);
            self.receive_p(self.above(level), page, carried);
        } else {
            self.receive(level, page, carried, false);
        }
    }

    fn adapt(&mut self, above: usize, level: usize) {
        let (lower, upper) = (self.levels[level].life() as f64, self.levels[above].life());
        let capacity = self.levels[level].capacity as f64;
        let promote = &mut self.levels[above].known_below;
        if lower <= capacity / 2.0 || (self.now - promote.last_hint) as f64 <= 0.05 * lower {
            return;
        }
        promote.last_hint = self.now;
        promote.hints += 1;
        if promote.hints % 2 == 1 {
            return;
        }
        let ratio = upper as f64 / (upper as f64 + lower);
        let before = promote.last_ratio.replace(ratio);
        if let Some(gap) = before.map(|before| (before - 0.5).abs())
            && gap - (ratio - 0.5).abs() > 0.05 * gap
        {
            return;
        }
        let p = promote.probability;
        promote.probability = (p + p * (1.0 - p) * (2.0 * ratio - 1.0)).min(promote.ceiling);
    }

    fn is_hot(&self, level: usize, block: &Block) -> bool {
        let Settings { t, cold, .. } = self.settings;
        let now = self.clock(level);
        let hotness = |block: &Block| self.h(block.f, block.hits, now - block.load);
        if cold == "mean" {
            let blocks = self.levels[level].blocks();
            let sum: f64 = blocks.map(hotness).sum();
            return hotness(block) > sum / self.levels[level].len() as f64;
        }
        let counts = |hit: u64| match cold {
            "recent" => now - hit <= t,
            "period" => hit > (now - 1) / t * t,
            _ => true,
        };
        block.last_hit.is_some_and(counts) || self.is_live(level, block.page)
    }

    /// Ends an access at some levels.
    fn tick(&mut self, levels: std::ops::Range<usize>) {
        let Settings { t, samples, is_dynamic, .. } = self.settings;
        for level in levels {
            let now = self.clock(level);
            if is_dynamic && now.is_multiple_of((t / samples).max(1)) {
                let entry = &self.levels[level];
                let cold = entry.q1.iter().filter(|block| !self.is_hot(level, block)).count();
                let hot = entry.q2.iter().filter(|block| self.is_hot(level, block)).count();
                self.levels[level].cold.push(cold);
                self.levels[level].hot.push(hot);
            }
            if now.is_multiple_of(t) {
                if self.is_top(level) {
                    self.client = level;
                }
                if self.settings.resort {
                    self.resort(level);
                }
                if is_dynamic {
                    self.partition(level);
                }
            }
        }
    }

    fn resort(&mut self, level: usize) {
        let now = self.clock(level);
        let renew = |block: &Block| {
            let f = self.f(level, block.page);
            let h = self.h(f, block.hits, now - block.load);
            Block { f, h, update: now, ..block.clone() }
        };
        let mut queues = [&self.levels[level].q1, &self.levels[level].q2]
            .map(|queue| queue.iter().map(renew).collect::<Vec<_>>());
        let sorted = usize::from(self.settings.kind == Kind::D);
        if self.settings.kind != Kind::D || self.settings.q2_by_hotness {
            queues[sorted].sort_by(|one, other| other.h.total_cmp(&one.h));
        }
        [self.levels[level].q1, self.levels[level].q2] = queues;
    }

    fn partition(&mut self, level: usize) {
        let (is_strict, kind) = (self.settings.is_strict, self.settings.kind);
        let entry = &mut self.levels[level];
        let mean = |counts: &mut Vec<usize>| {
            let sum: usize = counts.iter().sum();
            let mean = sum as f64 / counts.len() as f64;
            counts.clear();
            mean
        };
        if entry.cold.is_empty() {
            return;
        }
        let s = (mean(&mut entry.cold) - mean(&mut entry.hot)) as i64;
        let greatest = i64::try_from(entry.capacity - 1).unwrap().max(1);
        let c1 = (i64::try_from(entry.c1).unwrap() - s).clamp(1, greatest);
        entry.c1 = usize::try_from(c1).unwrap();
        while self.levels[level].q1.len() > self.levels[level].c1 {
            let tail = self.levels[level].q1.pop().unwrap();
            self.insert_q2(level, tail);
        }
        let entry = &mut self.levels[level];
        while is_strict && entry.q2.len() > entry.capacity - entry.c1 && entry.q1.len() < entry.c1 {
            let hottest = entry.q2.iter().map(|block| block.h).fold(0.0, f64::max);
            let place = entry.q2.iter().position(|block| block.h >= hottest).unwrap();
            let block = entry.q2.remove(place);
            if kind == Kind::D {
                entry.q1.push(block);
            } else {
                bubble(&mut entry.q1, usize::MAX, block);
            }
        }
        self.fit(level);
    }
}
