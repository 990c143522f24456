//! Products: reads are cached for all replicas, and a write removes the cached value.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};

use crate::{Shop, refusal::Refusal};

/// A product, as it is cached and answered.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Product {
    sku: String,
    cents: i64,
}

/// A cached read: of all requests that miss the product, one asks the database.
pub(crate) async fn show(State(shop): State<Shop>, Path(sku): Path<String>) -> Result<Json<Product>, Refusal> {
    let db = shop.db.clone();
    let load = async move |sku: String| {
        let find = sqlx::query_as("select sku, cents from products where sku = $1").bind(sku);
        let row: Option<(String, i64)> = find.fetch_optional(&db).await?;
        Ok::<_, sqlx::Error>(row.map(|(sku, cents)| Product { sku, cents }))
    };
    match shop.products.get_or_find(&sku, load).await? {
        Some(product) => Ok(Json(Product::clone(&product))),
        None => Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no product {sku}"))),
    }
}

/// Changes the price. After the answer, no replica returns the old one. After an error, the client repeats the request.
pub(crate) async fn set_cents(
    State(shop): State<Shop>,
    Path(sku): Path<String>,
    cents: String,
) -> Result<String, Refusal> {
    let Ok(cents) = cents.trim().parse::<i64>() else {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "the body is not a number of cents"));
    };
    let update = sqlx::query("update products set cents = $2 where sku = $1").bind(&sku).bind(cents);
    if update.execute(&shop.db).await?.rows_affected() == 0 {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no product {sku}")));
    }
    shop.products.remove(&sku).await?; // after the commit
    Ok(format!("{sku} costs {cents} cents\n"))
}
