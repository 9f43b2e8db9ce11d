//go:build unix && !linux

package engine

import "syscall"

// childAttributes puts the engine in a process group of its own, so that a
// terminal's ^C reaches only the parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
