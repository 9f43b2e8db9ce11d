package engine

import "syscall"

// childAttributes puts the engine in a process group of its own, so that a
// terminal's ^C reaches only the parent, and asks the kernel to stop it when
// the parent is gone. The kernel watches the thread that started the child,
// which is why that goroutine stays locked to its thread.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
