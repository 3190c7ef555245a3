// What unseen.c's `copy FROM TO` does, by Go's own library and system calls: on many threads, with descriptors that are
// polled, a child by clone(CLONE_VFORK), copies by copy_file_range and splice where the kernel takes them.
package main

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

func check(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func child() {
	file, err := os.Create("child")
	check(err)
	_, err = file.Write(make([]byte, 60))
	check(err)
	_, err = os.Stdout.Write(make([]byte, 40))
	check(err)
}

func copyAll(from, to string) {
	in, err := os.Open(from)
	check(err)
	out, err := os.Create("made")
	check(err)
	bytes := make([]byte, 1000)
	_, err = io.ReadFull(in, bytes)
	check(err)
	_, err = out.Write(bytes)
	check(err)
	_, err = in.ReadAt(bytes[:500], 2000)
	check(err)
	_, err = out.WriteAt(bytes[:500], 1000)
	check(err)
	_, err = io.CopyN(out, in, 300)
	check(err)

	self, err := os.Executable()
	check(err)
	ends, err := exec.Command(self, "child").Output()
	check(err)
	if len(ends) != 40 {
		os.Exit(2)
	}

	var all sync.WaitGroup
	for i := int64(0); i < 4; i++ {
		all.Add(1)
		go func(i int64) {
			defer all.Done()
			runtime.LockOSThread()
			part, err := os.Open(from)
			check(err)
			_, err = part.ReadAt(make([]byte, 100), 50*i)
			check(err)
			check(part.Close())
		}(i)
	}
	all.Wait()

	check(out.Close())
	check(os.Mkdir("folder", 0700))
	check(os.Rename("made", "folder/moved"))
	check(os.Link("folder/moved", to))
	check(os.Remove("folder/moved"))
	check(os.Symlink(to, "soft"))
	check(os.Remove("folder"))
	_, err = os.Open("absent")
	if !os.IsNotExist(err) {
		os.Exit(3)
	}
	_, err = in.Seek(0, io.SeekStart)
	check(err)
	_, err = io.Copy(os.Stdout, in)
	check(err)
}

func main() {
	if os.Args[1] == "child" {
		child()
	} else {
		copyAll(os.Args[2], os.Args[3])
	}
}
