// The same of Rust: its standard library allocates with malloc.
use std::{collections::HashMap, fs, process, thread};

fn work(number: usize) {
    let mut kept: HashMap<usize, Vec<u8>> = HashMap::new();
    for i in 0..2000 {
        kept.insert(i * 7 % 500, vec![1; i % 300]);
    }
    let bytes: usize = kept.values().map(Vec::len).sum();
    fs::write(format!("thread{number}"), format!("{bytes}\n")).unwrap();
}

fn main() {
    let threads: Vec<_> = (0..4).map(|i| thread::spawn(move || work(i))).collect();
    for i in 0..5 {
        let done = process::Command::new("sh").arg("-c").arg(format!("echo {i} > child{i}; cat child{i}")).output();
        print!("{}", String::from_utf8(done.unwrap().stdout).unwrap());
    }
    for thread in threads {
        thread.join().unwrap();
    }
    process::exit(7);
}
