//! Which descriptors of a process are of one open file.
//!
//! The kernel says of two open files which comes first (kcmp(2)): each is compared with a few of those before it, however many there are.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use vocab::Result;

/// The first descriptor of each open file, in the kernel's order. Only files with the same link can be one.
#[derive(Default)]
pub(super) struct Firsts<'a> {
    by_link: BTreeMap<&'a [u8], Vec<First>>,
}

#[derive(Clone, Copy)]
struct First {
    number: i32,
    file: u32,
}

impl<'a> Firsts<'a> {
    /// The open file of descriptor `number`: one that is known, or else `next`, which is known from now on. `compare` is asked for the order of two descriptors.
    ///
    /// # Errors
    /// Of `compare`.
    pub(super) fn file_of(
        &mut self,
        (link, number): (&'a [u8], i32),
        next: u32,
        mut compare: impl FnMut(i32, i32) -> Result<Ordering>,
    ) -> Result<u32> {
        let all = self.by_link.entry(link).or_default();
        let (mut from, mut to) = (0, all.len());
        while from < to {
            let middle = from + (to - from) / 2;
            match compare(all[middle].number, number)? {
                Ordering::Equal => return Ok(all[middle].file),
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
            }
        }
        all.insert(from, First { number, file: next });
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptor N is of file N / 3, and the order of files is not that of their numbers.
    #[test]
    fn each_descriptor_is_compared_with_a_few_others() {
        let order = |number: i32| (number / 3) * 7919 % 1009;
        let (mut firsts, mut asked, mut files) = (Firsts::default(), 0, 0);
        for number in 0..3000 {
            let compare = |one, other| {
                asked += 1;
                Ok(order(one).cmp(&order(other)))
            };
            let file = firsts.file_of((b"anon_inode:[eventfd]", number), files, compare).expect("no failure");
            assert_eq!(file, number as u32 / 3);
            files = files.max(file + 1);
        }
        assert!(asked <= 3000 * 10, "{asked}");
    }

    #[test]
    fn files_of_other_links_are_others() {
        let mut firsts = Firsts::default();
        let mut file = |link: &'static [u8], next| {
            firsts.file_of((link, 5), next, |_, _| Ok(Ordering::Equal)).expect("no failure")
        };
        assert_eq!((file(b"a", 0), file(b"b", 1), file(b"a", 2)), (0, 1, 0));
    }
}
