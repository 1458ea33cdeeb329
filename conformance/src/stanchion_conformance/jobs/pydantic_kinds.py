"""Models of Pydantic for the cases of models that come back as they went. Importing it needs Pydantic."""

# mypy: disable-error-code="misc, no-any-unimported, unused-ignore"

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    SecretStr,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_serializer,
)

WHEN = datetime(2031, 5, 1, 8, tzinfo=UTC)


class Login(BaseModel):
    user: str
    password: SecretStr = SecretStr("")


class KeptLogin(Login):
    @field_serializer("password", when_used="json")
    def shown(self, value: SecretStr) -> str:
        return value.get_secret_value()


class Excluded(BaseModel):
    id: int
    note: str = Field("", exclude=True)


class Private(BaseModel):
    id: int
    _seen: int = PrivateAttr(0)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


class Animal(BaseModel):
    name: str


class Cat(Animal):
    lives: int = 9


class Dog(Animal):
    legs: int = 4


class Owner(BaseModel):
    pet: Animal


class Rounded(BaseModel):
    price: float

    @field_serializer("price")
    def rounded(self, value: float) -> float:
        return round(value, 1)


class Doubled(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def doubled(cls, value: int) -> int:
        return 2 * value


class Dropped(BaseModel):
    id: int
    extra: int = 0

    @model_serializer(mode="wrap")
    def without(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"id": handler(self)["id"]}


class Aliases(BaseModel):
    read: int = Field(0, validation_alias="in")
    written: int = Field(0, serialization_alias="out")
    first: int = Field(0, validation_alias=AliasPath("numbers", 0))
    chosen: int = Field(0, validation_alias=AliasChoices("one", "other"))
    both: int = Field(0, alias="b")


class Shelf(BaseModel):
    aliases: list[Aliases]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int


class Numbers(RootModel[list[int]]):
    pass


class Wide(BaseModel):
    at: datetime = WHEN
    took: timedelta = timedelta(seconds=1, microseconds=5)
    price: Decimal = Decimal("1.50")
    id: UUID = UUID(int=7)
    tags: set[str] = {"a", "b"}
    pair: tuple[int, str] = (1, "x")
    data: bytes = b"abc"
    any: Any = None
    by_day: dict[int, float] = {1: 0.1}


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    size: int


class Square(BaseModel):
    kind: Literal["square"] = "square"
    size: int


Shape = Annotated[Circle | Square, Field(discriminator="kind")]


@dataclass
class Parcel:
    id: int
    login: Login
    weights: list[float] = field(default_factory=list)
