//go:build !linux

package testkit

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
