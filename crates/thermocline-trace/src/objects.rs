//! Pages of objects, numbered so that none is shared by two objects.
//!
//! While a trace is compiled, a page of an object is known by the object's id and by its plane, which
//! stands for the volume and the place of the page within its object. At the end objects get
//! places in the address space of their volume: if each is a page, its id is the page's number;
//! else they lie one after the other in order of first appearance, each as long as its last page
//! says, with a page between them, so that pages are neighbours only within an object.

use std::collections::HashMap;

use crate::id_map::{Full, GROUP_KEYS, IdMap, Key, WRITE_BIT};

/// Rule by which objects with sizes get pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objects {
    /// An object is as many pages as its bytes need, and shares none with another.
    #[default]
    Pages,
    /// An object is one page, whatever its size; the page's number is the object's id.
    One,
}

/// Places up to this have a table, those behind it a map.
const TABLE_PAGES: u32 = 1 << 10;

/// Pairs of a volume and a place within an object, numbered in order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Planes {
    /// Volume and place of each plane.
    places: Vec<(u32, u32)>,
    /// Per volume and place: the number of the plane and 1, or 0.
    near: Vec<Vec<u32>>,
    far: HashMap<(u32, u32), u32>,
    /// `true` if an object has more than its first page.
    is_cut: bool,
}

impl Planes {
    /// Return the plane of a page.
    #[inline]
    pub(crate) fn number(&mut self, volume: u32, page: u32) -> u32 {
        let known = self.near.get(volume as usize).and_then(|near| near.get(page as usize));
        match known {
            Some(&plane) if plane > 0 => plane - 1,
            _ => self.look_up(volume, page),
        }
    }

    #[cold]
    fn look_up(&mut self, volume: u32, page: u32) -> u32 {
        self.is_cut |= page > 0;
        let next = u32::try_from(self.places.len()).expect("each plane has a page with an id");
        if page < TABLE_PAGES {
            let volumes = self.near.len().max(volume as usize + 1);
            self.near.resize(volumes, Vec::new());
            let near = &mut self.near[volume as usize];
            near.resize(near.len().max(page as usize + 1), 0);
            near[page as usize] = next + 1;
        } else {
            let plane = *self.far.entry((volume, page)).or_insert(next);
            if plane < next {
                return plane;
            }
        }
        self.places.push((volume, page));
        next
    }

    /// Turns the columns of an [`IdMap`], which are ids of objects and planes, into page numbers
    /// within volumes and volumes. Returns how many objects there are, or none if there are too many.
    pub(crate) fn number_pages(&self, pages: &mut [u64], volumes: &mut Vec<u32>) -> Option<u64> {
        volumes.resize(pages.len(), 0);
        let planes: Vec<u32> = volumes.clone();
        for (volume, &plane) in volumes.iter_mut().zip(&planes) {
            *volume = self.places[plane as usize].0;
        }
        // The greatest number is no page number.
        if self.is_cut || pages.contains(&u64::MAX) {
            return self.place(pages, &planes);
        }
        Some(pages.len() as u64)
    }

    /// Puts the objects of each volume one after the other.
    fn place(&self, pages: &mut [u64], planes: &[u32]) -> Option<u64> {
        let mut objects = IdMap::new(WRITE_BIT);
        let mut object_of = Vec::with_capacity(pages.len());
        let mut group = Vec::with_capacity(GROUP_KEYS);
        for (pages, planes) in pages.chunks(GROUP_KEYS).zip(planes.chunks(GROUP_KEYS)) {
            group.clear();
            group.extend(pages.iter().zip(planes).map(|(&page, &plane)| {
                let (volume, _) = self.places[plane as usize];
                Key { page, volume, write_bit: 0 }
            }));
            objects.resolve(&group, &mut object_of).map_err(|Full| ()).ok()?;
        }
        let (ids, object_volumes) = objects.into_columns();
        let mut sizes = vec![0_u64; ids.len()];
        for (&object, &plane) in object_of.iter().zip(planes) {
            let (_, page) = self.places[plane as usize];
            let size = &mut sizes[object as usize];
            *size = (*size).max(u64::from(page) + 1);
        }
        let mut ends: Vec<u64> = Vec::new();
        let mut bases = sizes;
        for (object, base) in bases.iter_mut().enumerate() {
            let volume = object_volumes.get(object).map_or(0, |&volume| volume as usize);
            ends.resize(ends.len().max(volume + 1), 0);
            let begin = ends[volume];
            ends[volume] += *base + 1;
            *base = begin;
        }
        for ((page, &object), &plane) in pages.iter_mut().zip(&object_of).zip(planes) {
            *page = bases[object as usize] + u64::from(self.places[plane as usize].1);
        }
        Some(ids.len() as u64)
    }
}
