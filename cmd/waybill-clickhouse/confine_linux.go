package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock's second version (Linux 5.19). The first lets nobody move a
// file between directories, which ClickHouse does.
const (
	readFiles  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	allRights  = readFiles | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER
)

// allowed is what the engine gets to see of the file system: its own directory,
// and what a process needs to know of the machine.
func allowed(dir, library string) map[string]uint64 {
	return map[string]uint64{
		dir:                allRights &^ unix.LANDLOCK_ACCESS_FS_EXECUTE,
		library:            unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE,
		"/lib":             readFiles | unix.LANDLOCK_ACCESS_FS_EXECUTE, // what the library is linked with
		"/lib64":           readFiles | unix.LANDLOCK_ACCESS_FS_EXECUTE,
		"/usr/lib":         readFiles | unix.LANDLOCK_ACCESS_FS_EXECUTE,
		"/etc/ld.so.cache": unix.LANDLOCK_ACCESS_FS_READ_FILE,
		// Of itself alone: another process's environment may hold a secret.
		"/proc/self": readFiles, "/proc/sys": readFiles, "/proc/meminfo": unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/proc/cpuinfo": unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/proc/stat":    unix.LANDLOCK_ACCESS_FS_READ_FILE, "/proc/loadavg": unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/proc/uptime":        unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/sys":                readFiles,
		"/dev":                readFiles | unix.LANDLOCK_ACCESS_FS_WRITE_FILE,
		"/usr/share/zoneinfo": readFiles,
		"/etc/localtime":      unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/etc/resolv.conf":    unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/etc/hosts":          unix.LANDLOCK_ACCESS_FS_READ_FILE,
		"/etc/nsswitch.conf":  unix.LANDLOCK_ACCESS_FS_READ_FILE,
	}
}

// confine keeps this thread, and every thread that the engine starts from it, to
// its own directory for good. The library takes itself for clickhouse-local, a
// program of whoever runs it, and lets any user who may SELECT read any file that
// the process may: SELECT file('/etc/passwd'). The kernel does not.
// An error says that this kernel cannot.
func confine(dir, library string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < 2 {
		return fmt.Errorf("landlock: this kernel has version %d of it, and 2 is needed (%w)", max(0, int(version)), errno)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: allRights}
	// Only the first field: a kernel of the first version refuses a longer one.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)),
		unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	ruleset := int(fd)
	defer unix.Close(ruleset)
	for path, rights := range allowed(dir, library) {
		if err := allow(ruleset, path, rights); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("landlock: %s: %w", path, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

func allow(ruleset int, path string, rights uint64) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights | unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
