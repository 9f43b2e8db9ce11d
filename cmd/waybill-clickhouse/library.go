//go:build linux

package main

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is libchdb.so, loaded. It can be loaded once in a process, and its
// engine can be run once.
type library struct {
	setSignalHandlers func(enabled int32)
	run               func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	resultError       func(result unsafe.Pointer) string
	destroyResult     func(result unsafe.Pointer)
}

// load opens the library at path. RTLD_LOCAL keeps the allocator and the TLS
// library that are linked into it from being taken for ours.
func load(path string) (lib *library, err error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load the ClickHouse engine %s: %w (run make engine to fetch it again)", path, err)
	}
	lib = new(library)
	for name, function := range map[string]any{
		"chdb_set_signal_handlers_enabled": &lib.setSignalHandlers,
		"chdb_query_cmdline":               &lib.run,
		"chdb_result_error":                &lib.resultError,
		"chdb_destroy_query_result":        &lib.destroyResult,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("%s is not the engine library this program was made for: %w (run make engine)", path, err)
		}
		purego.RegisterFunc(function, symbol)
	}
	return lib, nil
}

// runLocal runs clickhouse-local with args and returns when it ends. Signals
// stay with the Go runtime: the engine is stopped through its script.
func (l *library) runLocal(args []string) error {
	l.setSignalHandlers(0)
	text := make([][]byte, 0, len(args)+1)
	pointers := make([]unsafe.Pointer, 0, len(args)+2)
	for _, arg := range append([]string{"clickhouse"}, args...) {
		text = append(text, append([]byte(arg), 0))
		pointers = append(pointers, unsafe.Pointer(&text[len(text)-1][0]))
	}
	pointers = append(pointers, nil) // C code may walk argv to its NULL
	result := l.run(int32(len(text)), unsafe.Pointer(&pointers[0]))
	runtime.KeepAlive(text)
	runtime.KeepAlive(pointers)
	if result == nil {
		return errors.New("the engine ended without a result")
	}
	defer l.destroyResult(result)
	if message := l.resultError(result); message != "" {
		return errors.New(message)
	}
	return nil
}
