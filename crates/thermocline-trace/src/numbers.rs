//! A column of numbers, in memory or in a mapped file.

use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;

/// A column of numbers, which reads as a slice. `O` is what owns those in memory.
#[derive(Clone)]
pub(crate) enum Numbers<T, O = Vec<T>> {
    /// Numbers in memory of this process.
    Owned(O),
    /// Numbers in a file, whose memory all processes share.
    Mapped(View<T>),
}

/// Numbers in a mapped file.
#[derive(Clone)]
pub(crate) struct View<T> {
    map: Arc<Map>,
    /// Range in the file; a whole number of values, aligned.
    bytes: Range<usize>,
    kind: PhantomData<T>,
}

/// A file that is mapped for reading.
#[derive(Debug)]
pub(crate) struct Map {
    bytes: Mmap,
    /// Holds a shared lock as long as the file is mapped, so that others can see that it is in use.
    _file: File,
}

impl Map {
    /// Maps a file.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        // A hint for those who would remove the file: without locks, or when one of them was faster,
        // the mapping is as good.
        let _is_locked = file.try_lock_shared().is_ok();
        // SAFETY: the bytes must not change while they are mapped. Thermocline writes such files under
        // another name, renames them when they are complete, and never writes to them again; removing
        // one leaves the mapping as it is. That nobody else changes them is a condition that
        // `CompiledTrace::open` states.
        #[expect(unsafe_code, reason = "the system cannot promise that a file stays as it is")]
        let bytes = unsafe { Mmap::map(&file)? };
        Ok(Self { bytes, _file: file })
    }

    /// Return all bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Pod> View<T> {
    /// Return the numbers in a part of a file; `None` if it is not in the file, not aligned, or no
    /// whole count of numbers.
    pub(crate) fn new(map: &Arc<Map>, bytes: Range<usize>) -> Option<Self> {
        let found = map.bytes().get(bytes.clone())?;
        bytemuck::try_cast_slice::<u8, T>(found).ok()?;
        Some(Self { map: Arc::clone(map), bytes, kind: PhantomData })
    }
}

impl<T: Pod> AsRef<[T]> for View<T> {
    #[inline]
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map.bytes()[self.bytes.clone()])
    }
}

impl<T: Pod, O: Deref<Target = [T]>> Deref for Numbers<T, O> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(numbers) => numbers,
            Self::Mapped(view) => view.as_ref(),
        }
    }
}

impl<T, O: From<Vec<T>>> From<Vec<T>> for Numbers<T, O> {
    fn from(numbers: Vec<T>) -> Self {
        Self::Owned(numbers.into())
    }
}

impl<T: Pod + fmt::Debug, O: Deref<Target = [T]>> fmt::Debug for Numbers<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
