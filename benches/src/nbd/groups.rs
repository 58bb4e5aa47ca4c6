//! Comparisons and their places.

/// Servers that are compared at one place.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Size of the export, in MiB.
    pub(super) mib: u32,
    pub(super) clients: Clients,
    /// A disk that all servers share, and that outlives them.
    pub(super) disk: Option<&'static str>,
    pub(super) peers: &'static [Peer<'static>],
    /// Cases that fill each server before anything is measured.
    pub(super) fill: &'static [Case],
    pub(super) cases: &'static [Case],
}

/// A server: its command, with `{socket}`, `{file}` (one of its own), `{size}`, `{mib}`, `{disk}`,
/// `{config}` and `{thermocline}` filled in, and the configuration that `{config}` is the path of.
#[derive(Clone, Copy)]
pub(super) struct Peer<'a> {
    pub(super) name: &'a str,
    pub(super) command: &'a str,
    pub(super) config: Option<&'a str>,
    /// Threads that serve, each as busy as the others.
    pub(super) threads: u32,
}

/// Processors of clients and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// The same, with equal rights.
    Equal,
    /// The same, and clients run first wherever both want one. Servers then find all that clients may have in
    /// flight, as if the clients had processors of their own, and processor time per request is that of a
    /// server that is busy all the time.
    First,
    /// Servers have the last one, and clients the others: the time of a request is not that of waiting for
    /// a processor.
    Apart,
}

/// Load of other clients at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beside {
    /// A client with arguments for fio.
    Fio(&'static [&'static str]),
    /// 64 clients with 128 requests outstanding each.
    Flood(Flood),
}

/// Requests of clients that keep a server busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flood {
    pub(super) bytes: u32,
    pub(super) is_write: bool,
}

/// Load of a client.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) fio: &'static [&'static str],
    /// Requests in flight.
    pub(super) depth: u32,
    /// Load of a client for some seconds before.
    pub(super) warming: &'static [&'static str],
    /// Load of other clients at the same time.
    pub(super) beside: Option<Beside>,
    /// `true` if the time of a flush is what counts.
    pub(super) is_flush: bool,
}

impl Case {
    const fn new(name: &'static str, fio: &'static [&'static str], depth: u32) -> Self {
        Self { name, fio, depth, warming: &[], beside: None, is_flush: false }
    }

    const fn warmed(self, fio: &'static [&'static str]) -> Self {
        Self { warming: fio, ..self }
    }

    const fn beside(self, fio: &'static [&'static str]) -> Self {
        Self { beside: Some(Beside::Fio(fio)), ..self }
    }

    const fn flooded(self, flood: Flood) -> Self {
        Self { beside: Some(Beside::Flood(flood)), ..self }
    }

    /// Return `true` if it is another one with nobody beside.
    pub(super) fn is_alone_of(&self, other: &Self) -> bool {
        self.beside.is_none() && (self.fio, self.depth) == (other.fio, other.depth)
    }

    const fn flush(self) -> Self {
        Self { is_flush: true, ..self }
    }
}

const NBDKIT_MEMORY: Peer<'static> = Peer {
    name: "nbdkit-memory",
    command: "nbdkit -f -U {socket} memory {size}",
    config: None,
    threads: 1,
};
const NBDKIT_FILE: Peer<'static> = Peer {
    name: "nbdkit-file",
    command: "nbdkit -f -U {socket} file {file}",
    config: None,
    threads: 1,
};
const NBDKIT_CACHE: Peer<'static> = Peer {
    name: "nbdkit-cache",
    command: "nbdkit -f -U {socket} --filter=cache file {file}",
    config: None,
    threads: 1,
};
const QEMU: Peer<'static> = Peer {
    name: "qemu-nbd",
    command: "qemu-nbd -t -f raw -k {socket} -e 64 {file}",
    config: None,
    threads: 1,
};
const QEMU_NONE: Peer<'static> = Peer {
    name: "qemu-none-uring",
    command: "qemu-nbd -t -f raw --cache=none --aio=io_uring -k {socket} -e 64 {file}",
    config: None,
    threads: 1,
};
/// A disk of 8 ms for each request, 16 at a time.
const SLOW_DISK: &str =
    "nbdkit -f -U {disk} -t 16 --filter=delay memory {size} rdelay=8ms wdelay=8ms";
const NO_CACHE: Peer<'static> = Peer {
    name: "no-cache",
    command: "nbdkit -f -U {socket} -t 16 --filter=delay memory {size} rdelay=8ms wdelay=8ms",
    config: None,
    threads: 1,
};
const CACHE_OF_SLOW: Peer<'static> = Peer {
    name: "nbdkit-cache",
    command: "nbdkit -f -U {socket} -t 16 --filter=cache --filter=delay memory {size} rdelay=8ms wdelay=8ms",
    config: None,
    threads: 1,
};
const SERVE: &str = "{thermocline} serve {config}";

const fn ours<'a>(name: &'a str, config: &'a str) -> Peer<'a> {
    Peer { name, command: SERVE, config: Some(config), threads: 1 }
}

/// All of the export in RAM; bytes need not be durable before a flush, as in nbdkit's memory.
const IN_RAM: &str = r#"
backing.path = "{file}"
ram.size = "{mib}MiB"
policy.name = "lru"
limits.undurable = "{mib}MiB"
nbd.socket = "{socket}"
"#;

/// The same with two shards.
const IN_RAM_OF_TWO: &str = r#"
backing.path = "{file}"
shards = 2
ram.size = "{mib}MiB"
policy.name = "lru"
limits.undurable = "{mib}MiB"
nbd.socket = "{socket}"
"#;

/// All of the export on flash, next to nothing in RAM: a hit changes no page's place.
const ON_FLASH: &str = r#"
backing.path = "{file}"
flash = { path = "{folder}/flash", size = "{mib}MiB" }
ram.size = "4MiB"
policy.name = "lru-inclusive"
nbd.socket = "{socket}"
"#;

/// The same under HAT.
const HAT: &str = r#"
backing.path = "{file}"
flash = { path = "{folder}/flash-hat", size = "{mib}MiB" }
ram.size = "16MiB"
policy.name = "hat"
nbd.socket = "{socket}"
"#;

/// A sixteenth of the disk in RAM, a quarter on flash.
const OVER_SLOW: &str = r#"
backing = { nbd = "nbd+unix:///?socket={disk}", note = "{folder}/note" }
flash = { path = "{folder}/flash", size = "256MiB" }
ram.size = "64MiB"
policy.name = "hat"
nbd.socket = "{socket}"
"#;

/// The same with the flash of the default size under two-level LRU.
const OVER_SLOW_LRU: &str = r#"
backing = { nbd = "nbd+unix:///?socket={disk}", note = "{folder}/note-lru" }
flash = { path = "{folder}/flash-lru", size = "256MiB" }
ram.size = "64MiB"
policy.name = "lru-inclusive"
nbd.socket = "{socket}"
"#;

/// Reads of few pages, which were read often before.
const HOT: Case = Case::new("hot hit d1", &["--rw=randread", "--size=4M"], 1).warmed(&[
    "--rw=randread",
    "--size=4M",
    "--iodepth=32",
]);

/// A client that asks for far less than its share.
const SLOWLY: [&str; 2] = ["--rw=randread", "--rate_iops=200"];

const FILL: Case = Case::new("fill", &["--rw=write", "--bs=256k"], 8);

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "ram",
        about: "everything in RAM",
        mib: 256,
        clients: Clients::Equal,
        disk: None,
        peers: &[NBDKIT_MEMORY, ours("ours", IN_RAM), NBDKIT_FILE, NBDKIT_CACHE, QEMU],
        fill: &[FILL],
        cases: &[
            Case::new("hit read d1", &["--rw=randread"], 1),
            Case::new("hit read d32", &["--rw=randread"], 32),
            Case::new("hit write d1", &["--rw=randwrite"], 1),
            Case::new("hit write d32", &["--rw=randwrite"], 32),
            Case::new("hit 70/30 d1", &["--rw=randrw", "--rwmixread=70"], 1),
            Case::new("hit 70/30 d32", &["--rw=randrw", "--rwmixread=70"], 32),
            Case::new("sequential read d8", &["--rw=read", "--bs=256k"], 8),
            Case::new("sequential write d8", &["--rw=write", "--bs=256k"], 8),
        ],
    },
    Group {
        name: "shards",
        about: "everything in RAM, four clients, which run before servers",
        mib: 256,
        clients: Clients::First,
        disk: None,
        peers: &[ours("1-shard", IN_RAM), Peer { threads: 2, ..ours("2-shards", IN_RAM_OF_TWO) }],
        fill: &[FILL],
        cases: &[
            Case::new(
                "hit read, 4 x d32",
                &["--rw=randread", "--numjobs=4", "--group_reporting"],
                32,
            ),
            Case::new(
                "hit write, 4 x d32",
                &["--rw=randwrite", "--numjobs=4", "--group_reporting"],
                32,
            ),
            Case::new(
                "hit read, 4 x d4",
                &["--rw=randread", "--numjobs=4", "--group_reporting"],
                4,
            ),
            Case::new(
                "hit read of 64 KiB, 4 x d8",
                &["--rw=randread", "--bs=64k", "--numjobs=4", "--group_reporting"],
                8,
            ),
        ],
    },
    Group {
        name: "fairness",
        about: "everything in RAM; one request at a time beside 64 clients with 128 each",
        mib: 256,
        clients: Clients::Apart,
        disk: None,
        // nbdkit ends while 64 clients write.
        peers: &[ours("ours", IN_RAM)],
        fill: &[FILL],
        cases: &[
            Case::new("read d1", &["--rw=randread"], 1),
            Case::new("read d1, reads of 4 KiB beside", &["--rw=randread"], 1)
                .flooded(Flood { bytes: 4 << 10, is_write: false }),
            Case::new("read d1, writes of 4 KiB beside", &["--rw=randread"], 1)
                .flooded(Flood { bytes: 4 << 10, is_write: true }),
            Case::new("read d1, reads of 64 KiB beside", &["--rw=randread"], 1)
                .flooded(Flood { bytes: 64 << 10, is_write: false }),
            Case::new("read d1, writes of 64 KiB beside", &["--rw=randread"], 1)
                .flooded(Flood { bytes: 64 << 10, is_write: true }),
            Case::new("200 reads/s", &SLOWLY, 1),
            Case::new("200 reads/s, reads of 4 KiB beside", &SLOWLY, 1)
                .flooded(Flood { bytes: 4 << 10, is_write: false }),
            Case::new("200 reads/s, writes of 4 KiB beside", &SLOWLY, 1)
                .flooded(Flood { bytes: 4 << 10, is_write: true }),
            Case::new("200 reads/s, reads of 64 KiB beside", &SLOWLY, 1)
                .flooded(Flood { bytes: 64 << 10, is_write: false }),
            Case::new("200 reads/s, writes of 64 KiB beside", &SLOWLY, 1)
                .flooded(Flood { bytes: 64 << 10, is_write: true }),
        ],
    },
    Group {
        name: "flash",
        about: "everything in a file past the page cache",
        mib: 256,
        clients: Clients::Equal,
        disk: None,
        peers: &[QEMU_NONE, ours("ours", ON_FLASH), ours("ours-hat", HAT)],
        fill: &[FILL, Case::new("fill", &["--rw=randread", "--size=256M"], 32)],
        cases: &[
            Case::new("flash hit read d1", &["--rw=randread"], 1),
            Case::new("flash hit read d32", &["--rw=randread"], 32),
        ],
    },
    Group {
        name: "durable",
        about: "a flush after each write",
        mib: 256,
        clients: Clients::Equal,
        disk: None,
        peers: &[QEMU_NONE, ours("ours", ON_FLASH), ours("ours-hat", HAT), QEMU, NBDKIT_FILE],
        fill: &[FILL],
        cases: &[
            Case::new("durable write d1", &["--rw=randwrite", "--fsync=1"], 1),
            Case::new("durable write d32", &["--rw=randwrite", "--fsync=1"], 32),
            Case::new(
                "durable write, 32 clients",
                &["--rw=randwrite", "--fsync=1", "--numjobs=32", "--group_reporting"],
                1,
            ),
        ],
    },
    Group {
        name: "slow",
        about: "a disk of 8 ms, 16 requests at a time; a sixteenth in RAM, a quarter on flash",
        mib: 1024,
        clients: Clients::Equal,
        disk: Some(SLOW_DISK),
        peers: &[NO_CACHE, ours("ours", OVER_SLOW), ours("ours-lru", OVER_SLOW_LRU), CACHE_OF_SLOW],
        fill: &[Case::new(
            "fill",
            &["--rw=randread", "--random_distribution=zipf:1.1", "--time_based", "--runtime=20"],
            32,
        )],
        cases: &[
            Case::new(
                "zipf 1.1 read d32",
                &["--rw=randread", "--random_distribution=zipf:1.1"],
                32,
            ),
            HOT,
            Case { name: "hot hit d1, misses beside", ..HOT }.beside(&[
                "--rw=randread",
                "--offset=512M",
                "--size=512M",
                "--iodepth=16",
            ]),
            // Half of what the disk takes: the time of hits is that of destaging, not of a client that
            // wants all of the processor.
            Case { name: "hot hit d1, 1,000 writes/s beside", ..HOT }.beside(&[
                "--rw=randwrite",
                "--offset=512M",
                "--size=512M",
                "--iodepth=16",
                "--rate_iops=1000",
            ]),
        ],
    },
    Group {
        name: "working-set",
        about: "a disk of 8 ms, 16 requests at a time; all that is read fits flash, an eighth RAM",
        mib: 256,
        clients: Clients::Equal,
        disk: Some(SLOW_DISK),
        peers: &[NO_CACHE, ours("ours-lru", OVER_SLOW_LRU), ours("ours", OVER_SLOW)],
        fill: &[Case::new("fill", &["--rw=read", "--bs=64k"], 16)],
        cases: &[Case::new("random read d32", &["--rw=randread"], 32)],
    },
    Group {
        name: "flush",
        about: "64k pages were written to a cache over a disk of 8 ms",
        mib: 256,
        clients: Clients::Equal,
        disk: Some(SLOW_DISK),
        peers: &[ours("ours-lru", OVER_SLOW_LRU), ours("ours", OVER_SLOW), CACHE_OF_SLOW],
        fill: &[],
        cases: &[Case::new(
            "64k pages, then a flush",
            &["--rw=write", "--bs=4k", "--fsync=65535"],
            32,
        )
        .flush()],
    },
];
