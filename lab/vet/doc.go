// Command vet runs under go vet what .ci/run checks of the source without running it: the analysers of go vet, package fused's, and
// those of staticcheck that are on by default, so that everything is read once and go's build cache keeps the verdicts.
//
//	go build -C lab -o /tmp/vet ./vet && go vet -vettool=/tmp/vet ./...
package main
