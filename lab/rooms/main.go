package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	flags := flag.NewFlagSet("rooms", flag.ContinueOnError)
	flags.SetOutput(stderr)
	verbose := flags.Bool("v", false, "print every pair of packages")
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: rooms [-v] DIR")
		return 2
	}
	h, err := readHouse(ctx, flags.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "rooms:", err)
		return 1
	}
	up := h.print(stdout, *verbose)
	if up > 0 {
		return 1
	}
	return 0
}
