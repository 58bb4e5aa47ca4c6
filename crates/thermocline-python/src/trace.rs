//! Traces: opened, generated, made of arrays, and their columns as arrays.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::{IntoPyArray as _, PyArray1, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::prelude::*;
use thermocline_core::{Clients, Nanos, Op};
use thermocline_lab::bundled_trace;
use thermocline_lab::spec::ColumnsSpec;
use thermocline_lab::sweep::TraceSource;
use thermocline_trace::generate::{Generator, Options, Pattern, Shift};
use thermocline_trace::{
    AddressSpace, CompiledTrace, Extent, Mapping, Objects, PageSize, Request, Requests, Reread,
    ReuseDistance, RowBatch, RowColumn, RowValues, Split, TableReader, TraceError, VolumeOf,
};

use crate::errors::python;
use crate::home::Home;
use crate::lab::json;
use crate::work::{Work, watched};

/// The top bit of a packed access: it writes.
const WRITE_BIT: u32 = 1 << 31;

/// Suffix of files that are mapped.
const MAPPED: &str = "tct";

/// A compiled trace.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Trace(pub(crate) Arc<CompiledTrace>);

/// The arrays of a batch: first pages, counts, writes, times.
type Batch<'py> = (
    PyReadonlyArray1<'py, u64>,
    Option<PyReadonlyArray1<'py, u64>>,
    Option<PyReadonlyArray1<'py, bool>>,
    Option<PyReadonlyArray1<'py, u64>>,
);

/// Requests that an iterator of Python gives, batch by batch.
struct Batches {
    name: PathBuf,
    volumes: [String; 1],
    iterator: Py<PyAny>,
    is_empty: bool,
    /// Takes what the iterator raises.
    home: Arc<Home>,
}

impl Requests for Batches {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        let found = Python::attach(|py| {
            while let Some(next) = self.iterator.bind(py).try_iter()?.next() {
                let arrays: Batch<'_> = next?.extract()?;
                Self::fill(&arrays, batch)?;
                if !batch.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        let has_more = found.unwrap_or_else(|error| {
            self.home.raise(error);
            false
        });
        self.is_empty &= !has_more;
        if self.is_empty && !self.home.watch.is_stopped() {
            return Err(TraceError::Empty { path: self.name.clone() });
        }
        Ok(has_more)
    }

    fn volume_names(&self) -> &[String] {
        &self.volumes
    }

    fn path(&self) -> &Path {
        &self.name
    }
}

impl Batches {
    /// Turn arrays, whose lengths the package has compared, into requests.
    fn fill(
        (places, lengths, writes, at_ns): &Batch<'_>,
        batch: &mut Vec<Request>,
    ) -> PyResult<()> {
        let places = places.as_slice()?;
        let lengths = lengths.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let writes = writes.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let at_ns = at_ns.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        batch.extend(places.iter().enumerate().map(|(index, &place)| {
            let length = lengths.and_then(|lengths| lengths.get(index)).copied().unwrap_or(1);
            let is_write = writes.and_then(|writes| writes.get(index)).copied().unwrap_or(false);
            Request {
                at: Nanos(at_ns.and_then(|at_ns| at_ns.get(index)).copied().unwrap_or(0)),
                op: if is_write { Op::Write } else { Op::Read },
                volume: 0,
                extent: Extent::Pages { first: place, count: length },
            }
        }));
        Ok(())
    }
}

/// Rows that an iterator of Python gives, batch by batch.
struct TableBatches {
    iterator: Py<PyAny>,
    /// Takes what the iterator raises.
    home: Arc<Home>,
}

/// The values of a column: what they are, the values, of texts where they begin, and which are missing.
type TableColumn<'py> = (
    String,
    Bound<'py, PyAny>,
    Option<PyReadonlyArray1<'py, i64>>,
    Option<PyReadonlyArray1<'py, bool>>,
);

impl Iterator for TableBatches {
    type Item = Result<RowBatch, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = Python::attach(|py| {
            let Some(next) = self.iterator.bind(py).try_iter()?.next() else { return Ok(None) };
            let columns: Vec<TableColumn<'_>> = next?.extract()?;
            let columns: PyResult<Vec<RowColumn>> = columns.iter().map(row_column).collect();
            Ok(Some(RowBatch::new(columns?)))
        });
        found.unwrap_or_else(|error| {
            self.home.raise(error);
            None
        })
    }
}

fn row_column((kind, values, offsets, missing): &TableColumn<'_>) -> PyResult<RowColumn> {
    let signed = || Ok::<_, PyErr>(values.extract::<PyReadonlyArray1<'_, i64>>()?.to_vec()?);
    let values = match kind.as_str() {
        "signed" => RowValues::Signed(signed()?),
        "nanos" => RowValues::Nanos(signed()?),
        "unsigned" => RowValues::Unsigned(values.extract::<PyReadonlyArray1<'_, u64>>()?.to_vec()?),
        "real" => RowValues::Real(values.extract::<PyReadonlyArray1<'_, f64>>()?.to_vec()?),
        _ => {
            let offsets =
                offsets.as_ref().map_or_else(|| Ok(vec![0]), |offsets| offsets.to_vec())?;
            let offsets: Result<Vec<usize>, _> = offsets.into_iter().map(usize::try_from).collect();
            let bytes = values.extract::<PyReadonlyArray1<'_, u8>>()?.to_vec()?;
            RowValues::Text { offsets: offsets?, bytes }
        }
    };
    let missing = missing.as_ref().map_or_else(|| Ok(vec![]), |missing| missing.to_vec())?;
    Ok(RowColumn::new(values, missing))
}

/// Return the meaning of columns, from JSON or TOML of a [`ColumnsSpec`].
fn mapping(text: &str) -> PyResult<Mapping> {
    let spec: ColumnsSpec = if text.starts_with('{') {
        serde_json::from_str(text).map_err(python)?
    } else {
        toml::from_str(text).map_err(python)?
    };
    spec.mapping().map_err(python)
}

/// Return the rule by which objects get pages.
fn objects_of(is_one_page: bool) -> Objects {
    if is_one_page { Objects::One } else { Objects::Pages }
}

/// The requests of a range of accesses, of which the first and the last may be cut.
struct Slice<'a> {
    source: Reread<'a>,
    /// Accesses until the range begins, and in it.
    skip: u64,
    take: u64,
}

impl Requests for Slice<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        while self.take > 0 && self.source.read_batch(batch)? {
            batch.retain_mut(|request| {
                let Extent::Pages { first, count } = &mut request.extent else { return false };
                let skipped = self.skip.min(*count);
                self.skip -= skipped;
                *first += skipped;
                *count = (*count - skipped).min(self.take);
                self.take -= *count;
                *count > 0
            });
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        batch.clear();
        Ok(false)
    }

    fn volume_names(&self) -> &[String] {
        self.source.volume_names()
    }

    fn path(&self) -> &Path {
        self.source.path()
    }
}

#[pymethods]
impl Trace {
    #[staticmethod]
    #[pyo3(signature = (path, page_size, format, time_unit, allow_truncated, only, by_file, columns, is_one_page))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        page_size: Option<&str>,
        format: Option<&str>,
        time_unit: Option<&str>,
        allow_truncated: bool,
        only: Vec<String>,
        by_file: bool,
        columns: Option<&str>,
        is_one_page: bool,
    ) -> PyResult<Self> {
        let source = TraceSource {
            name: path.display().to_string(),
            place: None,
            path,
            page_size: page_size.map(str::parse).transpose().map_err(python)?,
            format: format.map(str::parse).transpose().map_err(python)?,
            time_unit: time_unit.map(str::parse).transpose().map_err(python)?,
            allow_truncated,
            only_classes: only,
            volume_of: if by_file { VolumeOf::File } else { VolumeOf::All },
            objects: objects_of(is_one_page),
            columns: columns.map(mapping).transpose()?.map(Arc::new),
        };
        let work = Work::default();
        let opened = watched(py, &work, None, || source.open(work.watch(), 2))?;
        Ok(Self(Arc::new(opened.map_err(python)?)))
    }

    /// Return the trace that comes with the project.
    #[staticmethod]
    fn bundled(py: Python<'_>) -> PyResult<Self> {
        let work = Work::default();
        let compiled = watched(py, &work, None, bundled_trace)?;
        Ok(Self(Arc::new(compiled.map_err(python)?)))
    }

    /// Return the trace of an iterator of batches.
    #[staticmethod]
    fn from_batches(
        py: Python<'_>,
        iterator: Py<PyAny>,
        page_size: &str,
        name: PathBuf,
    ) -> PyResult<Self> {
        let page_size = page_size.parse().map_err(python)?;
        let (work, volumes) = (Work::default(), ["0".into()]);
        let home = Arc::clone(&work.home);
        let source = Batches { name, volumes, iterator, is_empty: true, home };
        let compiled = watched(py, &work, None, || work.watch().compile(source, page_size, 1))?;
        match work.home.take_raised() {
            Some(error) => Err(error),
            None => Ok(Self(Arc::new(compiled.map_err(python)?))),
        }
    }

    /// Return the numbers of those columns of a table, called `names`, that are looked at.
    #[staticmethod]
    fn columns_used(names: Vec<String>, columns: &str) -> PyResult<Vec<usize>> {
        mapping(columns)?.columns_used(&names).map_err(|reason| {
            let path = PathBuf::from("the table");
            python(TraceError::Content { path, reason })
        })
    }

    /// Return the trace of a table with columns called `names`, of which `columns` says what they
    /// mean: an iterator of batches, each a list of the columns that are looked at. Returns as JSON
    /// what was seen besides requests.
    #[staticmethod]
    fn from_rows(
        py: Python<'_>,
        iterator: Py<PyAny>,
        names: Vec<String>,
        columns: &str,
        is_one_page: bool,
        page_size: &str,
        name: PathBuf,
    ) -> PyResult<(Self, String)> {
        let page_size = page_size.parse().map_err(python)?;
        let work = Work::default();
        let batches = TableBatches { iterator, home: Arc::clone(&work.home) };
        let mut source =
            TableReader::new(name, &names, &mapping(columns)?, objects_of(is_one_page), batches)
                .map_err(python)?;
        let compile = || work.watch().compile(&mut source, page_size, 1);
        let compiled = watched(py, &work, None, compile)?;
        if let Some(error) = work.home.take_raised() {
            return Err(error);
        }
        let compiled = compiled.map_err(python)?;
        Ok((Self(Arc::new(compiled)), json(source.counts())?))
    }

    /// Return the accesses from one to another, as a trace of their own.
    fn slice(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Self> {
        let sliced = py.detach(|| {
            let take = end.saturating_sub(start);
            let mut source = Slice { source: self.0.reread(), skip: start, take };
            CompiledTrace::compile(&mut source, self.0.page_size())
        });
        Ok(Self(Arc::new(sliced.map_err(python)?)))
    }

    /// Return for each access the number of other pages that were accessed since the last one of
    /// its page; -1 for the first.
    fn reuse_distances<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let distances = py.detach(|| {
            let mut pages = ReuseDistance::new(self.0.footprint_pages());
            let ids = self.0.packed().iter().map(|packed| packed & !WRITE_BIT);
            ids.map(|page| pages.touch(page).map_or(-1, i64::from)).collect::<Vec<i64>>()
        });
        distances.into_pyarray(py)
    }

    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn generate(
        py: Python<'_>,
        kind: &str,
        requests: u64,
        pages: u64,
        alpha: f64,
        write_share: f64,
        interval_ns: u64,
        scatter: bool,
        shift: Option<(u64, u64)>,
        seed: u64,
        page_size: &str,
    ) -> PyResult<Self> {
        let patterns = [
            Pattern::Zipf { alpha },
            Pattern::Uniform,
            Pattern::Sequential,
            Pattern::Loop,
            Pattern::OLTP,
        ];
        let pattern = patterns.into_iter().find(|pattern| pattern.name() == kind);
        let pattern = pattern.ok_or_else(|| {
            python(TraceError::Generator {
                reason: format!(
                    "there is no kind `{kind}`; there are: {}",
                    patterns.map(|pattern| pattern.name()).join(", ")
                ),
            })
        })?;
        let interarrival = Nanos(interval_ns);
        let shift = shift.map(|(every_requests, pages)| Shift { every_requests, pages });
        let options =
            Options { pattern, requests, pages, write_share, interarrival, scatter, shift, seed };
        let source = Generator::new(options).map_err(python)?;
        Self::compile(py, source, page_size.parse().map_err(python)?)
    }

    /// Return the traces of several clients, as one.
    #[staticmethod]
    fn merge(py: Python<'_>, traces: Vec<PyRef<'_, Self>>, private: bool) -> PyResult<Self> {
        let traces: Vec<Arc<CompiledTrace>> = traces.iter().map(|one| Arc::clone(&one.0)).collect();
        let addresses = if private { AddressSpace::Private } else { AddressSpace::Shared };
        let merged = py.detach(|| {
            let mut sources: Vec<Reread<'_>> = traces.iter().map(|one| one.reread()).collect();
            let page_size = traces.first().map_or(PageSize::DEFAULT, |first| first.page_size());
            CompiledTrace::compile_clients(&mut sources, page_size, addresses)
        });
        Ok(Self(Arc::new(merged.map_err(python)?)))
    }

    /// Return the same trace, its requests dealt out to `clients` clients.
    fn split(&self, py: Python<'_>, clients: usize, by_volume: bool) -> PyResult<Self> {
        let Some(clients) = Clients::new(clients) else {
            return Err(python(TraceError::Clients {
                clients: u8::try_from(clients).unwrap_or(u8::MAX),
                reason: format!("there may be from 1 to {}", Clients::MAX),
            }));
        };
        let split = if by_volume { Split::Volume } else { Split::RoundRobin };
        let dealt = py.detach(|| CompiledTrace::clone(&self.0).split(clients, split));
        Ok(Self(Arc::new(dealt.map_err(python)?)))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let is_mapped = path.extension().is_some_and(|end| end == MAPPED);
        let save = || if is_mapped { self.0.save_mapped(path) } else { self.0.save(path) };
        py.detach(save).map_err(python)
    }

    fn page_ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        let ids = self.0.packed().iter().map(|packed| packed & !WRITE_BIT);
        ids.collect::<Vec<u32>>().into_pyarray(py)
    }

    fn writes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let writes = self.0.packed().iter().map(|packed| packed & WRITE_BIT != 0);
        writes.collect::<Vec<bool>>().into_pyarray(py)
    }

    fn page_numbers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.0.page_numbers().to_vec().into_pyarray(py)
    }

    fn requests<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.of_requests(py, |number, _| number)
    }

    fn at_ns<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.of_requests(py, |_, at| at.0)
    }

    fn client_ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        let clients = self.0.accesses().map(|access| access.client);
        clients.collect::<Vec<u8>>().into_pyarray(py)
    }

    #[getter]
    fn clients(&self) -> u8 {
        self.0.clients().get()
    }

    #[getter]
    fn path(&self) -> String {
        self.0.path().display().to_string()
    }

    #[getter]
    fn page_size_bytes(&self) -> u64 {
        self.0.page_size_bytes()
    }

    #[getter]
    fn footprint_pages(&self) -> u32 {
        self.0.footprint_pages()
    }

    #[getter]
    fn is_timed(&self) -> bool {
        self.0.is_timed()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

impl Trace {
    fn compile(
        py: Python<'_>,
        source: impl Requests + Send,
        page_size: PageSize,
    ) -> PyResult<Self> {
        let work = Work::default();
        let compiled = watched(py, &work, None, || work.watch().compile(source, page_size, 1))?;
        Ok(Self(Arc::new(compiled.map_err(python)?)))
    }

    /// Return a figure of each access's request: by the request's number, from 0, and its time.
    fn of_requests<'py>(
        &self,
        py: Python<'py>,
        figure: impl Fn(u64, Nanos) -> u64,
    ) -> Bound<'py, PyArray1<u64>> {
        let figures = (0..).zip(self.0.requests()).flat_map(|(number, request)| {
            std::iter::repeat_n(figure(number, request.at), request.accesses.len())
        });
        figures.collect::<Vec<u64>>().into_pyarray(py)
    }
}
