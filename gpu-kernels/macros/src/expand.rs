//! What `#[kernel]` accepts, and what it makes of it.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, FnArg, ItemFn, Result, ReturnType, Type};

/// Expands one kernel, or says which part of its signature was not as expected.
pub(crate) fn kernel(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "`#[kernel]` takes no arguments"));
    }
    let function: ItemFn = syn::parse2(item)?;
    let args = parameter(&function)?;

    let ItemFn { attrs, vis, sig, block } = &function;
    let name = &sig.ident;
    let entry = {
        let mut sig = sig.clone();
        sig.abi = Some(syn::parse_quote!(extern "ptx-kernel"));
        sig
    };
    let conditions: Vec<_> = attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    let about = format!("Handle of the kernel `{name}`: what a backend is given to launch it.");

    Ok(quote! {
        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis #entry #block

        #[cfg(not(target_arch = "nvptx64"))]
        #(#attrs)*
        #vis #sig #block

        #[cfg(not(target_arch = "nvptx64"))]
        #(#conditions)*
        #[doc = #about]
        #[allow(non_camel_case_types)]
        #vis enum #name {}

        #[cfg(not(target_arch = "nvptx64"))]
        #(#conditions)*
        impl ::pagelift_device::Kernel for #name {
            type Args = #args;
            const NAME: &'static str = stringify!(#name);

            unsafe fn run(args: Self::Args) {
                // SAFETY: the caller of `run` answers for the conditions of the kernel, which are the same.
                unsafe { #name(args) }
            }
        }
    })
}

/// The type of the one parameter, of a function that has the form of a kernel.
fn parameter(function: &ItemFn) -> Result<&Type> {
    let sig = &function.sig;
    let refuse = |part: &dyn ToTokens, expected: &str| {
        Err(Error::new_spanned(part.to_token_stream(), format!("expected {expected}")))
    };
    if sig.unsafety.is_none() {
        return refuse(&sig.fn_token, "`unsafe fn`: a kernel trusts the addresses it is given");
    }
    if let Some(word) = &sig.constness {
        return refuse(word, "a kernel that is not `const`");
    }
    if let Some(word) = &sig.asyncness {
        return refuse(word, "a kernel that is not `async`");
    }
    if let Some(abi) = &sig.abi {
        return refuse(abi, "no ABI: `#[kernel]` sets it");
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        return refuse(&sig.ident, "a kernel without generics: a PTX entry has one name");
    }
    if let ReturnType::Type(..) = &sig.output {
        return refuse(&sig.output, "no return value: a kernel answers through memory");
    }
    let mut inputs = sig.inputs.iter();
    match (inputs.next(), inputs.next()) {
        (Some(FnArg::Typed(only)), None) if sig.variadic.is_none() => match &*only.ty {
            Type::Reference(reference) => {
                refuse(reference, "a parameter by value: a host reference means nothing on a GPU")
            }
            by_value => Ok(by_value),
        },
        _ => refuse(&sig.ident, "exactly one parameter, a `#[repr(C)]` struct by value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: TokenStream, item: TokenStream) -> String {
        kernel(arguments, item).expect_err("must be refused").to_string()
    }

    #[test]
    fn one_definition_gives_entry_function_and_handle() {
        let item = quote! {
            /// Moves.
            pub unsafe fn go(args: Args) { body(args) }
        };
        let expanded = kernel(TokenStream::new(), item).unwrap();
        let file: syn::File = syn::parse2(expanded.clone()).unwrap();
        assert_eq!(file.items.len(), 4);

        let text = expanded.to_string();
        assert_eq!(text.matches("Moves.").count(), 2, "both functions keep their documentation: {text}");
        assert!(text.contains(r#"extern "ptx-kernel" fn go"#), "{text}");
        assert!(text.contains("enum go { }"), "{text}");
        assert!(text.contains("type Args = Args"), "{text}");
    }

    #[test]
    fn the_handle_exists_under_the_same_condition_as_its_kernel() {
        let item = quote! { #[cfg(feature = "f")] pub unsafe fn go(args: Args) {} };
        let text = kernel(TokenStream::new(), item).unwrap().to_string();
        assert_eq!(text.matches(r#"feature = "f""#).count(), 4, "{text}");
    }

    #[test]
    fn refusals_say_what_was_expected() {
        let good = quote! { pub unsafe fn go(args: Args) {} };
        assert!(refusal(quote!(block_dim = 1), good).contains("takes no arguments"));
        for (item, expected) in [
            (quote! { pub fn go(args: Args) {} }, "`unsafe fn`"),
            (quote! { pub const unsafe fn go(args: Args) {} }, "not `const`"),
            (quote! { pub async unsafe fn go(args: Args) {} }, "not `async`"),
            (quote! { pub unsafe extern "C" fn go(args: Args) {} }, "no ABI"),
            (quote! { pub unsafe fn go<T>(args: T) {} }, "without generics"),
            (quote! { pub unsafe fn go(args: Args) -> u32 { 0 } }, "no return value"),
            (quote! { pub unsafe fn go() {} }, "exactly one parameter"),
            (quote! { pub unsafe fn go(a: u32, b: u32) {} }, "exactly one parameter"),
            (quote! { pub unsafe fn go(self) {} }, "exactly one parameter"),
            (quote! { pub unsafe fn go(args: &Args) {} }, "by value"),
        ] {
            let message = refusal(TokenStream::new(), item);
            assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        }
        assert!(
            kernel(
                TokenStream::new(),
                quote!(
                    struct S;
                )
            )
            .is_err()
        );
    }
}
