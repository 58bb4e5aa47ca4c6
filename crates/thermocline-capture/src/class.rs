//! Kind of a file by its path, and the PostgreSQL relation it belongs to.

/// Purpose of a file, as far as its name shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileClass {
    Data,
    Log,
    Temporary,
    Other,
}

impl FileClass {
    /// Return its name in the file table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Log => "log",
            Self::Temporary => "temporary",
            Self::Other => "other",
        }
    }

    /// Return its flag in a recording.
    pub(crate) const fn flag(self) -> &'static [u8] {
        match self {
            Self::Data => b"",
            Self::Log => b"l",
            Self::Temporary => b"t",
            Self::Other => b"x",
        }
    }

    /// Return the class of the file of this name.
    pub(crate) fn of(path: &[u8]) -> Self {
        if let Some(class) = postgresql(path) {
            return class;
        }
        let (folder, name) = split(path);
        if is_log(name) {
            Self::Log
        } else if matches!(folder, b"/tmp" | b"/var/tmp")
            || name.ends_with(b".tmp")
            || name.ends_with(b".dbtmp")
        {
            Self::Temporary
        } else if is_other(path, name) {
            Self::Other
        } else {
            Self::Data
        }
    }
}

/// Return the folders of a PostgreSQL cluster that say what is in them.
fn postgresql(path: &[u8]) -> Option<FileClass> {
    let (folder, name) = split(path);
    let is_below = |part: &[u8]| path.split(|&byte| byte == b'/').any(|step| step == part);
    if is_below(b"pgsql_tmp") {
        return Some(FileClass::Temporary);
    }
    if is_below(b"pg_wal") || is_below(b"pg_xlog") {
        return Some(FileClass::Log);
    }
    if is_database(folder) {
        let is_temporary =
            name.first() == Some(&b't') && name.get(1).is_some_and(u8::is_ascii_digit);
        return Some(match (is_temporary, Relation::of(path)) {
            (true, _) => FileClass::Temporary,
            (false, Some(_)) => FileClass::Data,
            (false, None) => FileClass::Other,
        });
    }
    let is_cluster = name.starts_with(b"PG_VERSION")
        || name.starts_with(b"pg_control")
        || name.starts_with(b"postmaster.")
        || name.starts_with(b"postgresql.") && name.ends_with(b"conf")
        || is_below(b"pg_stat")
        || is_below(b"pg_stat_tmp")
        || is_below(b"pg_logical")
        || is_below(b"pg_replslot");
    is_cluster.then_some(FileClass::Other)
}

fn is_log(name: &[u8]) -> bool {
    const ENDINGS: [&[u8]; 4] = [b"-wal", b"-journal", b".log", b".wal"];
    ENDINGS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
        || numbered(name, b"MANIFEST-")
        || name.starts_with(b"ib_logfile")
        || numbered(name, b"#ib_redo")
}

fn is_other(path: &[u8], name: &[u8]) -> bool {
    const NAMES: [&[u8]; 6] =
        [b"CURRENT", b"IDENTITY", b"LOCK", b"LOG", b"locale-archive", b"gconv-modules.cache"];
    const FOLDERS: [&[u8]; 3] = [b"/etc/", b"/usr/lib/locale/", b"/usr/share/locale/"];
    let is_library = memchr::memmem::find(name, b".so")
        .is_some_and(|at| matches!(name.get(at + 3), None | Some(b'.')));
    is_library
        || NAMES.contains(&name)
        || name.starts_with(b"LOG.old.")
        || numbered(name, b"OPTIONS-")
        || name.ends_with(b"-shm")
        || name.ends_with(b".pid")
        || FOLDERS.iter().any(|folder| path.starts_with(folder))
}

fn numbered(name: &[u8], head: &[u8]) -> bool {
    name.strip_prefix(head).is_some_and(is_number)
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Return the folder and the name in it.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', path) {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Return `true` if a folder holds the relations of a PostgreSQL database.
fn is_database(folder: &[u8]) -> bool {
    let (above, name) = split(folder);
    let (_, parent) = split(above);
    name == b"global" && !parent.is_empty()
        || is_number(name) && (parent == b"base" || parent.starts_with(b"PG_"))
}

/// A file of a PostgreSQL relation: which one, which fork, which segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relation<'a> {
    /// The path of the first segment of the main fork.
    pub(crate) path: &'a [u8],
    /// 0 main, 1 free space map, 2 visibility map, 3 initial.
    pub(crate) fork: usize,
    /// Index of the fork's gigabyte.
    pub(crate) segment: u64,
}

impl<'a> Relation<'a> {
    /// Number of forks.
    pub(crate) const FORKS: usize = 4;

    /// The size of a segment.
    pub(crate) const SEGMENT_BYTES: u64 = 1 << 30;

    /// Understands a path, if it is that of a relation.
    pub(crate) fn of(path: &'a [u8]) -> Option<Self> {
        let (folder, name) = split(path);
        if !is_database(folder) {
            return None;
        }
        let (stem, segment) = match memchr::memrchr(b'.', name) {
            Some(dot) => (&name[..dot], Self::segment(&name[dot + 1..])?),
            None => (name, 0),
        };
        let (number, fork) = match memchr::memrchr(b'_', stem) {
            Some(at) => match &stem[at..] {
                b"_fsm" => (&stem[..at], 1),
                b"_vm" => (&stem[..at], 2),
                b"_init" => (&stem[..at], 3),
                _ => (stem, 0),
            },
            None => (stem, 0),
        };
        if !Self::is_name(number) {
            return None;
        }
        Some(Self { path: &path[..folder.len() + 1 + number.len()], fork, segment })
    }

    fn segment(text: &[u8]) -> Option<u64> {
        if !is_number(text) || text.len() > 6 {
            return None;
        }
        Some(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }

    /// Return `true` for a number, or for a temporary relation `t`, the backend, `_`, and a number.
    fn is_name(name: &[u8]) -> bool {
        is_number(name)
            || name.strip_prefix(b"t").is_some_and(|rest| {
                let mut parts = rest.splitn(2, |&byte| byte == b'_');
                parts.all(is_number) && rest.contains(&b'_')
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_are_for() {
        for (path, class) in [
            ("/pg/data/base/5/16399", FileClass::Data),
            ("/pg/data/base/5/16399_vm", FileClass::Data),
            ("/pg/data/base/5/t3_16402", FileClass::Temporary),
            ("/pg/data/base/5/pg_internal.init", FileClass::Other),
            ("/pg/data/global/pg_control", FileClass::Other),
            ("/pg/data/pg_tblspc/7/PG_15_202209061/5/16399.2", FileClass::Data),
            ("/pg/data/pg_wal/000000010000000000000001", FileClass::Log),
            ("/pg/data/base/pgsql_tmp/pgsql_tmp99.0", FileClass::Temporary),
            ("/pg/data/pg_xact/0000", FileClass::Data),
            ("/pg/data/postmaster.pid", FileClass::Other),
            ("/home/a/bank.db", FileClass::Data),
            ("/home/a/bank.db-wal", FileClass::Log),
            ("/home/a/bank.db-journal", FileClass::Log),
            ("/home/a/bank.db-shm", FileClass::Other),
            ("/rocks/000012.log", FileClass::Log),
            ("/rocks/MANIFEST-000004", FileClass::Log),
            ("/rocks/LOG", FileClass::Other),
            ("/rocks/000013.sst", FileClass::Data),
            ("/rocks/000014.dbtmp", FileClass::Temporary),
            ("/tmp/ccXy12.s", FileClass::Temporary),
            ("/tmp/work/bank.db", FileClass::Data),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", FileClass::Other),
            ("/src/sort.source", FileClass::Data),
            ("relative", FileClass::Data),
            (".log", FileClass::Data),
        ] {
            assert_eq!(FileClass::of(path.as_bytes()), class, "{path}");
        }
    }

    #[test]
    fn relations_have_forks_and_segments() {
        let of = |path: &'static str| {
            Relation::of(path.as_bytes()).map(|it| (it.path.len(), it.fork, it.segment))
        };
        assert_eq!(of("/d/base/5/16399"), Some((15, 0, 0)));
        assert_eq!(of("/d/base/5/16399.12"), Some((15, 0, 12)));
        assert_eq!(of("/d/base/5/16399_fsm"), Some((15, 1, 0)));
        assert_eq!(of("/d/base/5/16399_vm.1"), Some((15, 2, 1)));
        assert_eq!(of("/d/base/5/16399_init"), Some((15, 3, 0)));
        assert_eq!(of("/d/base/5/t3_16402_fsm"), Some((18, 1, 0)));
        assert_eq!(of("/d/global/1260"), Some((14, 0, 0)));
        for path in [
            "/d/base/5/16399.x",
            "/d/base/5/pg_filenode.map",
            "/d/base/5/16399_abc",
            "/d/base/x/16399",
            "/d/other/5/16399",
            "16399",
            "/d/base/5/16399.99999999",
            "",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
