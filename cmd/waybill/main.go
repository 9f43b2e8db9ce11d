// Command waybill is Waybill for people: it runs everything (up, demo), and it
// asks and changes a running deployment.
package main

import (
	"os"

	"github.com/waybill-dev/waybill/internal/app/cli"
	"github.com/waybill-dev/waybill/internal/app/process"
)

func main() {
	os.Exit(process.Execute(cli.New(os.Stdin, os.Stdout, os.Stderr), os.Args[1:], os.Stderr))
}
