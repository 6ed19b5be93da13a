// Package fused finds sums of floating-point products that a compiler may compute
// in one instruction, without rounding the product. Go allows that (language
// specification, "Floating-point operators") and does it on arm64, ppc64, riscv64
// and s390x, but not on amd64: the last digits of a result then depend on the
// machine. An explicit conversion, float64(x*y) + z, rounds the product. Twice a
// product is such a sum, too: compilers add 2·x as x + x.
//
//	go build -C lab -o /tmp/vet ./vet && go vet -vettool=/tmp/vet ./...
package fused
