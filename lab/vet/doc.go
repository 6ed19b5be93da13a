// Command vet runs all static checks of .ci/run under go vet: the analysers of go vet, package fused's, and those of staticcheck
// that are on by default. Sources are then read once, and go's build cache keeps the results.
//
//	go build -C lab -o /tmp/vet ./vet && go vet -vettool=/tmp/vet ./...
package main
