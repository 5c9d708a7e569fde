//! Contents of files on a machine's disk, by what is in them: whatever a file is called and whoever may read it, the same bytes are there once (docs/decisions/store.md).
//!
//! A content is known by the checksums of its pieces, so that each piece can be used as soon as it has come, from whomever: from the disk after a restart, from the machine where
//! the file is, or from another one that is just having it too.
#![forbid(unsafe_code)]

mod content;
mod disk;
mod object;
mod peers;

pub use content::{Content, Name, PIECE};
pub use disk::{Held, Store};
pub use object::{Object, Reach};
pub use peers::{fetch, serve};

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::path::PathBuf;
    use std::sync::Arc;
    use vocab::Result;

    const CLUSTER: [u8; 32] = [5; 32];
    const MOST: u64 = 8 << 20;

    /// A directory that goes with the test.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("shoal-store-{name}-{}", std::process::id()));
            let _from_before = fs::remove_dir_all(&path);
            Directory(path)
        }

        fn files(&self) -> usize {
            let names = fs::read_dir(&self.0).expect("a directory").map(|entry| entry.expect("an entry").file_name());
            names.filter(|name| name != "lock").count()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    fn bytes(seed: u8, length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 7) as u8 ^ seed).collect()
    }

    fn content(bytes: &[u8]) -> Content {
        let read = |from: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[from as usize..][..into.len()]);
            Ok(())
        };
        Content::of(bytes.len() as u64, read).expect("it can be read")
    }

    fn brought(store: &Store, bytes: &[u8]) -> Result<Arc<Object>> {
        match store.hold(&content(bytes))? {
            Held::Here(object) => Ok(object),
            Held::New(object) => {
                store.look(&object, || ());
                for piece in bytes[object.length() as usize..].chunks(PIECE as usize) {
                    object.append(piece)?;
                }
                store.keep(&object)?;
                Ok(object)
            }
        }
    }

    #[test]
    fn a_content_outlives_the_process_and_is_looked_at_again() {
        let directory = Directory::new("outlives");
        let (good, bad) = (bytes(1, 700_000), bytes(2, 700_000));
        {
            let store = Store::open(&directory.0, MOST).expect("a store");
            assert!(Store::open(&directory.0, MOST).is_err(), "it is somebody's");
            brought(&store, &good).expect("room");
            let bad = brought(&store, &bad).expect("room");
            let path = directory.0.join(bad.name().to_string());
            let mut all = fs::read(&path).expect("kept");
            all[600_000] ^= 1;
            fs::write(&path, all).expect("written");
            assert!(matches!(store.hold(&content(&good)), Ok(Held::New(_))), "nobody has it any more");
        }
        fs::write(directory.0.join("x.new"), b"half").expect("written");
        let store = Store::open(&directory.0, MOST).expect("a store");
        assert_eq!((store.amount().0, directory.files()), (2, 2));
        for (bytes, there) in [(&good, 700_000), (&bad, 2 * PIECE)] {
            let Ok(Held::New(object)) = store.hold(&content(bytes)) else { panic!("another one has it") };
            store.look(&object, || ());
            assert_eq!(object.length(), there);
            bytes[there as usize..].chunks(PIECE as usize).for_each(|piece| object.append(piece).expect("right"));
            store.keep(&object).expect("kept already");
            assert_eq!(object.read(0, 700_000).expect("whole"), *bytes);
        }
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let directory = Directory::new("room");
        let store = Store::open(&directory.0, MOST).expect("a store");
        assert!(store.hold(&content(&bytes(0, MOST as usize / 4 + 1))).is_err(), "more than a quarter of all");
        let all: Vec<Vec<u8>> = (0..6).map(|seed| bytes(seed, 1_900_000)).collect();
        let names: Vec<Name> = all.iter().map(|bytes| content(bytes).name()).collect();
        for bytes in &all[..4] {
            brought(&store, bytes).expect("room");
        }
        brought(&store, &all[0]).expect("there");
        brought(&store, &all[4]).expect("room");
        let there = |name: &Name| directory.0.join(name.to_string()).exists();
        assert_eq!(names.iter().map(there).collect::<Vec<_>>(), [true, false, true, true, true, false]);
        let Ok(Held::New(object)) = store.hold(&content(&all[5])) else { panic!("it is new") };
        store.give_up(&object);
        assert_eq!((store.amount().0, directory.files()), (3, 3));
        assert!(object.has_failed());
        brought(&store, &all[5]).expect("another try");
    }

    #[test]
    fn machines_have_contents_from_each_other_while_they_come() {
        let directories = ["a", "b", "c"].map(Directory::new);
        let stores: Vec<Arc<Store>> =
            directories.iter().map(|one| Arc::new(Store::open(&one.0, MOST).expect("a store"))).collect();
        let addresses: Vec<SocketAddr> = stores
            .iter()
            .map(|store| {
                let listener = spread::listen().expect("a port");
                let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), listener.port);
                serve(listener, &CLUSTER, store.clone()).expect("a thread");
                address
            })
            .collect();
        let bytes = bytes(3, 1_500_000);
        let hold = |store: &Store| match store.hold(&content(&bytes)) {
            Ok(Held::New(object)) => object,
            other => panic!("{other:?}"),
        };
        let (first, second, third) = (hold(&stores[0]), hold(&stores[1]), hold(&stores[2]));
        std::thread::scope(|scope| {
            scope.spawn(|| fetch(addresses[0], &CLUSTER, &second, || ()).expect("from the first"));
            let from_second = scope.spawn(|| {
                let mut pieces = 0;
                fetch(addresses[1], &CLUSTER, &third, || pieces += 1).expect("from the second");
                pieces
            });
            bytes.chunks(PIECE as usize).for_each(|piece| first.append(piece).expect("right"));
            assert_eq!(from_second.join().expect("a thread"), 6);
        });
        assert_eq!(third.read(0, bytes.len()).expect("whole"), bytes);
        stores[2].keep(&third).expect("whole");
        drop((second, third));
        // Nobody reads it, and it is on the disk.
        let again = hold(&stores[1]);
        fetch(addresses[2], &CLUSTER, &again, || ()).expect("from the third's disk");
        let Ok(Held::New(other)) = stores[0].hold(&content(b"other")) else { panic!("it is new") };
        assert!(fetch(addresses[1], &CLUSTER, &other, || ()).is_err_and(|fault| fault.to_string().contains("no more")));
        assert!(fetch(addresses[1], &[6; 32], &other, || ()).is_err());
    }
}
