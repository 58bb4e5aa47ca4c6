//! Compiled functions of a replacement algorithm, as Numba or a C compiler makes them.
//!
//! Python gives their addresses. They are called without the interpreter, so that runs of compiled
//! policies go on in parallel. Each is given the memory that the policy keeps its state in:
//!
//! ```c
//! void hit(void *state, int64_t length, uint32_t page, uint8_t is_write);
//! void miss(void *state, int64_t length, uint32_t page, uint8_t is_write);
//! uint32_t evict(void *state, int64_t length, uint32_t page, uint8_t is_write);
//! void remove(void *state, int64_t length, uint32_t page);
//! ```
#![expect(unsafe_code, reason = "calls addresses, which only their author can vouch for")]

use std::ffi::c_void;
use std::mem;

use pyo3::prelude::*;
use thermocline_core::{Op, PageId};

type Hear = unsafe extern "C" fn(*mut c_void, i64, u32, u8);
type Choose = unsafe extern "C" fn(*mut c_void, i64, u32, u8) -> u32;
type Remove = unsafe extern "C" fn(*mut c_void, i64, u32);

/// The functions of one policy object, with its state.
#[derive(Debug, FromPyObject)]
struct Addresses {
    hit: usize,
    miss: usize,
    evict: usize,
    remove: usize,
    /// Address of the state, and its number of elements.
    state: usize,
    length: i64,
    /// Keeps the functions and the state.
    owner: Py<PyAny>,
}

/// Functions that may be called, one after the other, as long as this lives.
#[derive(Debug)]
pub(crate) struct Functions {
    hit: Hear,
    miss: Hear,
    evict: Choose,
    remove: Remove,
    state: *mut c_void,
    length: i64,
    _owner: Py<PyAny>,
}

// SAFETY: the state belongs to one policy object, which Python made for one run and hands to nobody
// else; whoever holds `Functions` is the only one to use it.
unsafe impl Send for Functions {}

impl<'py> FromPyObject<'_, 'py> for Functions {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Addresses { hit, miss, evict, remove, state, length, owner } = value.extract()?;
        // SAFETY: `CompiledEvictionPolicy` of the package made the addresses of functions with these
        // signatures, or the author of the policy vouches for them; `owner` keeps them loaded.
        unsafe {
            Ok(Self {
                hit: mem::transmute::<usize, Hear>(hit),
                miss: mem::transmute::<usize, Hear>(miss),
                evict: mem::transmute::<usize, Choose>(evict),
                remove: mem::transmute::<usize, Remove>(remove),
                state: state as *mut c_void,
                length,
                _owner: owner,
            })
        }
    }
}

impl Functions {
    #[inline]
    pub(crate) fn hit(&mut self, page: PageId, op: Op) {
        // SAFETY: see `extract`; `&mut self` keeps calls from overlapping.
        unsafe { (self.hit)(self.state, self.length, page.0, u8::from(op == Op::Write)) }
    }

    #[inline]
    pub(crate) fn miss(&mut self, page: PageId, op: Op) {
        // SAFETY: as above.
        unsafe { (self.miss)(self.state, self.length, page.0, u8::from(op == Op::Write)) }
    }

    #[inline]
    pub(crate) fn evict(&mut self, page: PageId, op: Op) -> PageId {
        // SAFETY: as above.
        PageId(unsafe { (self.evict)(self.state, self.length, page.0, u8::from(op == Op::Write)) })
    }

    pub(crate) fn remove(&mut self, page: PageId) {
        // SAFETY: as above.
        unsafe { (self.remove)(self.state, self.length, page.0) }
    }
}
