package fused

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports products that are added or subtracted before they are rounded, also by way of a
// local variable, a field set in the same function, or a function that returns a product. It skips
// tests.
var Analyzer = &analysis.Analyzer{
	Name:      "fused",
	Doc:       "report floating-point products that are added before they are rounded",
	Run:       run,
	FactTypes: []analysis.Fact{new(returnsProduct)},
}

type returnsProduct struct{} // marks a function that returns an unrounded product

// AFact and String make the type a fact of package analysis, with a name for tests.
func (*returnsProduct) AFact()         {}
func (*returnsProduct) String() string { return "product" }

// function is the state of checking one function.
type function struct {
	pass     *analysis.Pass
	products map[string]bool // variables and fields that are set to a product, as written
}

// run first finds which functions return products, until nothing changes. Then it checks every sum.
func run(pass *analysis.Pass) (any, error) {
	var files []*ast.File
	for _, file := range pass.Files {
		if !strings.HasSuffix(pass.Fset.Position(file.Pos()).Filename, "_test.go") {
			files = append(files, file)
		}
	}
	var declared []*ast.FuncDecl
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				declared = append(declared, f)
			}
		}
	}
	for changed := true; changed; { // a function may return what another one returns
		changed = false
		for _, d := range declared {
			object := pass.TypesInfo.Defs[d.Name]
			if !pass.ImportObjectFact(object, new(returnsProduct)) && newFunction(pass, d).returns(d) {
				pass.ExportObjectFact(object, new(returnsProduct))
				changed = true
			}
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			newFunction(pass, d).report(d)
		}
	}
	return nil, nil
}

// newFunction finds the variables and fields that a declaration sets to products.
func newFunction(pass *analysis.Pass, d ast.Decl) *function {
	f := &function{pass, map[string]bool{}}
	for changed := true; changed; {
		changed = false
		ast.Inspect(d, func(n ast.Node) bool {
			a, ok := n.(*ast.AssignStmt)
			if !ok || len(a.Lhs) != len(a.Rhs) {
				return true
			}
			for i, to := range a.Lhs {
				name := types.ExprString(to)
				if set := a.Tok == token.MUL_ASSIGN || (a.Tok == token.ASSIGN || a.Tok == token.DEFINE) && f.product(a.Rhs[i]); set && f.float(to) && !f.products[name] {
					f.products[name], changed = true, true
				}
			}
			return true
		})
	}
	return f
}

func (f *function) returns(d *ast.FuncDecl) (found bool) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			for _, r := range n.Results {
				found = found || f.product(r)
			}
		}
		return true
	})
	return found
}

func (f *function) report(d ast.Decl) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.ADD || n.Op == token.SUB {
				f.operand(n.X)
				f.operand(n.Y)
			}
			if n.Op == token.MUL && f.two(n.X) {
				f.operand(n.Y)
			} else if n.Op == token.MUL && f.two(n.Y) {
				f.operand(n.X)
			}
		case *ast.AssignStmt:
			if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
				f.operand(n.Lhs[0])
				f.operand(n.Rhs[0])
			}
		}
		return true
	})
}

// operand reports an operand of a sum that is an unrounded product.
func (f *function) operand(x ast.Expr) {
	if f.product(x) {
		f.pass.Reportf(x.Pos(), "a compiler may add the product %s before it is rounded: convert it to its type", types.ExprString(x))
	}
}

// product says whether an expression is an unrounded product.
func (f *function) product(x ast.Expr) bool {
	if !f.float(x) {
		return false
	}
	switch x := x.(type) {
	case *ast.ParenExpr:
		return f.product(x.X)
	case *ast.UnaryExpr:
		return x.Op == token.SUB && f.product(x.X)
	case *ast.BinaryExpr:
		return x.Op == token.MUL || x.Op == token.QUO && f.powerOfTwo(x.Y)
	case *ast.Ident, *ast.SelectorExpr:
		return f.products[types.ExprString(x)]
	case *ast.CallExpr:
		var callee *ast.Ident
		switch c := x.Fun.(type) {
		case *ast.Ident:
			callee = c
		case *ast.SelectorExpr:
			callee = c.Sel
		default:
			return false
		}
		called, ok := f.pass.TypesInfo.Uses[callee].(*types.Func)
		return ok && f.pass.ImportObjectFact(called, new(returnsProduct))
	}
	return false
}

// two says whether an expression is the constant 2: compilers add 2·x as x + x.
func (f *function) two(x ast.Expr) bool {
	v := f.pass.TypesInfo.Types[x].Value
	return v != nil && constant.Compare(v, token.EQL, constant.MakeInt64(2))
}

// powerOfTwo says whether an expression is a constant by which compilers multiply
// instead of dividing.
func (f *function) powerOfTwo(x ast.Expr) bool {
	v := f.pass.TypesInfo.Types[x].Value
	if v == nil {
		return false
	}
	c, _ := constant.Float64Val(v)
	fraction, _ := math.Frexp(c)
	return math.Abs(fraction) == 0.5
}

// float says whether an expression is a floating-point number and no constant.
func (f *function) float(x ast.Expr) bool {
	v, ok := f.pass.TypesInfo.Types[x]
	if !ok { // the left side of a definition
		if id, isIdent := x.(*ast.Ident); isIdent && f.pass.TypesInfo.Defs[id] != nil {
			v.Type, ok = f.pass.TypesInfo.Defs[id].Type(), true
		}
	}
	if !ok || v.Value != nil || v.Type == nil {
		return false
	}
	basic, ok := v.Type.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
}
