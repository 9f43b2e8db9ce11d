package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// terminalOnStdin makes descriptor 0 a new pseudo terminal and returns the
// descriptor of its other end. The terminal never becomes the controlling one,
// so closing the other end sends nobody a hangup.
func terminalOnStdin() (master int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, fmt.Errorf("unlock pseudo terminal: %w", err)
	}
	// TIOCGPTPEER works also where /dev/pts is not mounted.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, fmt.Errorf("open pseudo terminal: %w", errno)
	}
	defer unix.Close(int(peer))
	if err := unix.Dup3(int(peer), 0, 0); err != nil {
		return -1, fmt.Errorf("put pseudo terminal on standard input: %w", err)
	}
	return master, nil
}
