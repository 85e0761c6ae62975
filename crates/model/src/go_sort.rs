//! Go's `sort.Sort`: the order in which etcd leaves elements that compare as equal.
//!
//! Nothing in etcd's API names that order, but a limit shows it: which keys are returned depends on it. Copied from
//! `sort/zsortinterface.go`, like what it judges; that both are right is for the trials against etcd to say.

const INSERTION_MAX: usize = 12;
const NINTHER_MIN: usize = 50;
/// Exchanges among the samples of a pivot if all of them are in falling order.
const SWAPS_MAX: usize = 12;
const SHIFT_MIN: usize = 50;
const SHIFT_STEPS: usize = 5;

/// Sorts by `less` as Go does.
pub(crate) fn go_sort<T>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let bad_pivots = bit_length(items.len());
    let len = items.len();
    Sorter { items, less }.quicksort(0, len, bad_pivots);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hint {
    Unknown,
    Increasing,
    Decreasing,
}

struct Sorter<'a, T, F> {
    items: &'a mut [T],
    less: F,
}

impl<T, F: Fn(&T, &T) -> bool> Sorter<'_, T, F> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a], &self.items[b])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
    }

    /// Sorts `a..b`. `bad_pivots`: how many very uneven partitions are put up with before a heap takes over.
    fn quicksort(&mut self, mut a: usize, mut b: usize, mut bad_pivots: usize) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        loop {
            let len = b - a;
            if len <= INSERTION_MAX {
                return self.insertion_sort(a, b);
            }
            if bad_pivots == 0 {
                return self.heap_sort(a, b);
            }
            if !was_balanced {
                self.break_patterns(a, b);
                bad_pivots -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(a, b);
            if hint == Hint::Decreasing {
                self.items[a..b].reverse();
                pivot = (b - 1) - (pivot - a);
                hint = Hint::Increasing;
            }
            let looks_sorted = was_balanced && was_partitioned && hint == Hint::Increasing;
            if looks_sorted && self.partial_insertion_sort(a, b) {
                return;
            }
            if a > 0 && !self.less(a - 1, pivot) {
                a = self.partition_equal(a, b, pivot);
                continue;
            }
            let (mid, was_in_place) = self.partition(a, b, pivot);
            was_partitioned = was_in_place;
            let (left, right) = (mid - a, b - mid);
            was_balanced = left.min(right) >= len / 8;
            if left < right {
                self.quicksort(a, mid, bad_pivots);
                a = mid + 1;
            } else {
                self.quicksort(mid + 1, b, bad_pivots);
                b = mid;
            }
        }
    }

    fn insertion_sort(&mut self, a: usize, b: usize) {
        for i in a + 1..b {
            let mut j = i;
            while j > a && self.less(j, j - 1) {
                self.swap(j, j - 1);
                j -= 1;
            }
        }
    }

    fn heap_sort(&mut self, first: usize, b: usize) {
        let len = b - first;
        for root in (0..=(len - 1) / 2).rev() {
            self.sift_down(root, len, first);
        }
        for end in (0..len).rev() {
            self.swap(first, first + end);
            self.sift_down(0, end, first);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.swap(first + root, first + child);
            root = child;
        }
    }

    /// Moves what is less than the pivot before it and the rest behind it. Returns where the pivot is then, and
    /// whether nothing else had to move.
    fn partition(&mut self, a: usize, b: usize, pivot: usize) -> (usize, bool) {
        self.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        let mut moved = false;
        loop {
            while i <= j && self.less(i, a) {
                i += 1;
            }
            while i <= j && !self.less(j, a) {
                j -= 1;
            }
            if i > j {
                break;
            }
            moved = true;
            self.swap(i, j);
            i += 1;
            j -= 1;
        }
        self.swap(j, a);
        (j, !moved)
    }

    /// Moves what equals the pivot before what is greater; nothing is less. Returns where the latter begins.
    fn partition_equal(&mut self, a: usize, b: usize, pivot: usize) -> usize {
        self.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        loop {
            while i <= j && !self.less(a, i) {
                i += 1;
            }
            while i <= j && self.less(a, j) {
                j -= 1;
            }
            if i > j {
                return i;
            }
            self.swap(i, j);
            i += 1;
            j -= 1;
        }
    }

    /// Sorts what is nearly sorted; false if that takes more than a few steps.
    fn partial_insertion_sort(&mut self, a: usize, b: usize) -> bool {
        let mut i = a + 1;
        for _ in 0..SHIFT_STEPS {
            while i < b && !self.less(i, i - 1) {
                i += 1;
            }
            if i == b {
                return true;
            }
            if b - a < SHIFT_MIN {
                return false;
            }
            self.swap(i, i - 1);
            if i - a >= 2 {
                // As Go does, to the beginning of everything and not only of this part.
                let mut j = i - 1;
                while j >= 1 && self.less(j, j - 1) {
                    self.swap(j, j - 1);
                    j -= 1;
                }
            }
            if b - i >= 2 {
                let mut j = i + 1;
                while j < b && self.less(j, j - 1) {
                    self.swap(j, j - 1);
                    j += 1;
                }
            }
        }
        false
    }

    /// Moves three elements to places that only the length decides.
    fn break_patterns(&mut self, a: usize, b: usize) {
        let len = b - a;
        let mask = (1_u64 << bit_length(len)) - 1;
        let mut random = len as u64;
        let middle = a + len / 4 * 2;
        for index in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = (random & mask) as usize;
            self.swap(index, a + if other >= len { other - len } else { other });
        }
    }

    /// Of more than twelve elements.
    fn choose_pivot(&self, a: usize, b: usize) -> (usize, Hint) {
        let len = b - a;
        let mut swaps = 0;
        let mut samples = [1, 2, 3].map(|quarter| a + len / 4 * quarter);
        if len >= NINTHER_MIN {
            samples = samples.map(|at| self.median([at - 1, at, at + 1], &mut swaps));
        }
        let pivot = self.median(samples, &mut swaps);
        let hint = match swaps {
            0 => Hint::Increasing,
            SWAPS_MAX => Hint::Decreasing,
            _ => Hint::Unknown,
        };
        (pivot, hint)
    }

    fn median(&self, [a, b, c]: [usize; 3], swaps: &mut usize) -> usize {
        let (a, b) = self.in_order(a, b, swaps);
        let (b, _) = self.in_order(b, c, swaps);
        self.in_order(a, b, swaps).1
    }

    fn in_order(&self, a: usize, b: usize, swaps: &mut usize) -> (usize, usize) {
        if self.less(b, a) {
            *swaps += 1;
            return (b, a);
        }
        (a, b)
    }
}

/// How many bits a number has without leading zeros.
fn bit_length(n: usize) -> usize {
    (usize::BITS - n.leading_zeros()) as usize
}
