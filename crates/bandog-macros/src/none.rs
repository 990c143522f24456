//! Refuses a locked function without `wait` whose `Ok(None)` can never come: its author expects that the call returns
//! `Ok(None)` if the lock is busy.

use syn::{
    Error, Expr, ExprAsync, ExprClosure, ExprReturn, GenericArgument, Item, ItemFn, Macro, Path, PathArguments, Result,
    ReturnType, Stmt, Type,
    visit::{self, Visit},
};

/// An error if the function returns `Result<Option<T>, E>`, and its body only ever returns `Ok(Some(…))` or `Err(…)`. A body
/// that returns another value, such as the result of a call, may return `Ok(None)` for a reason of its own.
pub(crate) fn refuse(function: &ItemFn) -> Result<()> {
    let ReturnType::Type(_, returned) = &function.sig.output else { return Ok(()) };
    let Some(option) = first_argument(returned, "Result").filter(|value| first_argument(value, "Option").is_some())
    else {
        return Ok(());
    };
    let Some(Stmt::Expr(last, None)) = function.block.stmts.last() else { return Ok(()) };
    let mut returns = Returns { all_known: true };
    returns.visit_block(&function.block);
    if !(returns.all_known && is_known(last)) {
        return Ok(());
    }
    let message = "this function never returns `Ok(None)`: without `wait`, the call waits until the lock is free. Write \
                   wait = \"0s\" if `Ok(None)` means that the lock is busy, or return `Result<T, E>`";
    Err(Error::new(syn::spanned::Spanned::span(option), message))
}

/// The first generic argument of a type with this name, such as `T` of `Result<T, E>`.
pub(crate) fn first_argument<'a>(of: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(argument) => Some(argument),
        _ => None,
    }
}

/// Whether this is `Ok(Some(…))` or `Err(…)`.
fn is_known(value: &Expr) -> bool {
    match call(value) {
        Some((function, _)) if function.is_ident("Err") => true,
        Some((function, inner)) if function.is_ident("Ok") => {
            call(inner).is_some_and(|(function, _)| function.is_ident("Some"))
        }
        _ => false,
    }
}

/// The function and the first argument of a call.
fn call(of: &Expr) -> Option<(&Path, &Expr)> {
    let Expr::Call(call) = of else { return None };
    let Expr::Path(function) = &*call.func else { return None };
    Some((&function.path, call.args.first()?))
}

/// Whether all values that a body returns early are known. Macros are opaque, so a body with one is not known.
struct Returns {
    all_known: bool,
}

impl<'a> Visit<'a> for Returns {
    fn visit_expr_return(&mut self, part: &'a ExprReturn) {
        self.all_known &= part.expr.as_deref().is_some_and(is_known);
        visit::visit_expr_return(self, part);
    }

    fn visit_macro(&mut self, _: &'a Macro) {
        self.all_known = false;
    }

    // A `return` in one of these ends only the part.
    fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

    fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

    fn visit_item(&mut self, _: &'a Item) {}
}
