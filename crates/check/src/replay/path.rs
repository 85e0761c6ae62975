//! Path: the revisions explained so far and the world they lead to, with a way back.

use vetch_model::Request;

use super::Maker;
use crate::history::History;
use crate::world::World;

/// Revisions between two copies of the world at least.
const STRIDE: usize = 256;
/// Copies of the world over the whole history at most, about.
const COPIES: usize = 8;

pub(super) struct Path<'h> {
    history: &'h History,
    pub(super) world: World,
    /// The makers of the revisions from 2 on.
    pub(super) makers: Vec<Maker>,
    /// Worlds on the way, with the number of makers that led to them.
    copies: Vec<(usize, World)>,
    stride: usize,
}

impl<'h> Path<'h> {
    /// For a history of so many revisions.
    pub(super) fn new(history: &'h History, revisions: i64) -> Path<'h> {
        let stride = STRIDE.max(usize::try_from(revisions).unwrap_or(0) / COPIES);
        let copies = vec![(0, World::default())];
        Path { history, world: World::default(), makers: Vec::new(), copies, stride }
    }

    /// The revision that is to be explained next.
    pub(super) fn next(&self) -> i64 {
        self.makers.len() as i64 + 2
    }

    /// Copies the world if the last copy is far behind. The world must be where the makers led.
    pub(super) fn rest(&mut self) {
        if self.copies.last().is_none_or(|(length, _)| length + self.stride <= self.makers.len()) {
            self.copies.push((self.makers.len(), self.world.clone()));
        }
    }

    /// Goes back to where only so many revisions were explained, whatever became of the world since.
    pub(super) fn back_to(&mut self, length: usize) {
        self.copies.retain(|(copied, _)| *copied <= length);
        let (copied, world) = self.copies.last().expect("the first is always there");
        let (copied, mut world) = (*copied, world.clone());
        self.makers.truncate(length);
        for maker in &self.makers[copied..] {
            // It went the first time, or did not and was reported.
            world.apply(&request(self.history, *maker)).ok();
        }
        self.world = world;
    }
}

/// What a maker did.
pub(super) fn request(history: &History, maker: Maker) -> Request {
    match maker {
        Maker::Answered(index) | Maker::Unknown(index) => history.operations[index].request.clone(),
        Maker::Expiry(id) => Request::LeaseRevoke { id },
    }
}
